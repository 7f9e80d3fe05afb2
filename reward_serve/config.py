"""Everything that ``args`` of a ``deployments/*.yaml`` may say, checked when it is read.

>>> config = parse_config({"models": [{"name": "judge", "kind": "judge"}]})
>>> config.models[0].resources.num_cpus
2.0
"""

import difflib
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from reward_serve.engines.arguments import check_engine_kwargs
from reward_serve.judging.template import template_names

BUNDLED_MODEL = "bundled"
SHIPPED_ADAPTER = "shipped"
NO_ADAPTER = "none"
INGRESS_NAME = "ingress"

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class ConfigError(ValueError):
    """A deployments file says something that cannot be served; names the field and the remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)


class EngineConfig(_Section):
    """A vLLM engine. What is left out (``None``) takes a default that fits the device."""

    model: str = Field(BUNDLED_MODEL, min_length=1, description="bundled, a path, or a hub id")
    adapter: str = Field(
        SHIPPED_ADAPTER,
        min_length=1,
        description="merged into the bundled model: shipped, none, or the folder of a LoRA",
    )
    revision: str | None = None
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: a GPU when the deployment is given one, else the CPU"
    )
    tensor_parallel_size: Count = 1
    max_model_len: Annotated[int, Field(ge=64)] = 2048
    max_num_seqs: Count = 64
    max_num_batched_tokens: Count | None = Field(None, description="CPU: 512; GPU: vLLM's own")
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="default 0.9 of the share of the GPU that the replica asks for"
    )
    cpu_kv_cache_gib: Annotated[float, Field(gt=0)] = Field(
        1.0, description="touched whole at start-up, 3 s a GiB; 23k tokens of the bundled judge"
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="auto: float32 on CPU, the checkpoint's on GPU"
    )
    quantization: str | None = None
    seed: int = 0
    enable_prefix_caching: bool = True
    block_size: Count | None = Field(None, description="CPU: 32; GPU: vLLM's own")
    trust_remote_code: bool = False
    stall_timeout_s: Seconds = Field(
        60.0, description="an engine with work and no progress for so long is hung"
    )
    engine_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="passed on to vLLM's AsyncEngineArgs"
    )

    @model_validator(mode="after")
    def _only_the_bundled_model_takes_an_adapter(self) -> Self:
        if self.model != BUNDLED_MODEL and self.adapter not in (SHIPPED_ADAPTER, NO_ADAPTER):
            raise ValueError(
                f"adapter: {self.adapter!r} is merged into model: bundled only; merge it into "
                f"{self.model!r} beforehand and serve the merged folder"
            )
        return self

    @model_validator(mode="after")
    def _engine_kwargs_are_known(self) -> Self:
        check_engine_kwargs(self.engine_kwargs, own=set(type(self).model_fields))
        return self


OptionName = Literal["mode", "temperature", "top_p", "max_tokens", "enable_thinking", "cache"]


class JudgeConfig(_Section):
    """How a judge judges."""

    template: str = "final_answer"
    mode: Literal["label", "generate"] = "label"
    rules_first: bool = Field(True, description="what a rule can prove is not asked of the model")
    response_tokens: Count | None = Field(
        None, description="judge the last so many tokens of a response; default the template's"
    )
    inline_templates: bool = Field(
        False, description="whether a request's template may be a template itself"
    )
    max_tokens: Count = Field(512, description="most tokens written in generate mode")
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    allowed_options: list[OptionName] = Field(
        default=["mode", "temperature", "top_p", "max_tokens", "enable_thinking", "cache"],
        description="what a request's options may set",
    )

    @model_validator(mode="after")
    def _template_is_known(self) -> Self:
        if self.template not in template_names():
            raise ValueError(
                f"template: there is no {self.template!r}; choose of {', '.join(template_names())}"
            )
        return self


class CacheConfig(_Section):
    """Equal questions are asked once in a replica, while one is at work and as long as it is kept.

    Equal is what gives the engine the same tokens.
    """

    enabled: bool = True
    max_entries: Count = 65_536
    max_mib: Annotated[float, Field(gt=0)] = 64.0


class RuleConfig(_Section):
    """Which verifier decides."""

    verifier: Literal["gsm8k"] = "gsm8k"


class ResourcesConfig(_Section):
    """What one replica asks Ray for."""

    num_cpus: Annotated[float, Field(gt=0)] | None = None
    num_gpus: Annotated[float, Field(ge=0)] | None = None
    accelerator_type: str | None = None
    runtime_env: dict[str, Any] | None = None


class AutoscalingConfig(_Section):
    """Replicas follow the items (not calls) in flight."""

    min_replicas: Annotated[int, Field(ge=0)] = 1
    max_replicas: Count = 1
    initial_replicas: Annotated[int, Field(ge=0)] | None = None
    target_items: Annotated[float, Field(gt=0)] | None = Field(
        None, description="items in flight a replica should have; default max_concurrent_items"
    )
    look_back_period_s: Seconds = 15.0
    upscale_delay_s: Annotated[float, Field(ge=0)] = 10.0
    downscale_delay_s: Annotated[float, Field(ge=0)] = 300.0

    @model_validator(mode="after")
    def _bounds_fit(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas: {self.max_replicas} is below min_replicas "
                f"{self.min_replicas}; raise it"
            )
        if self.initial_replicas is not None and not (
            self.min_replicas <= self.initial_replicas <= self.max_replicas
        ):
            raise ValueError(
                f"initial_replicas: {self.initial_replicas} is outside "
                f"{self.min_replicas}..{self.max_replicas}; choose one within"
            )
        return self


class _Model(_Section):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    resources: ResourcesConfig = Field(default_factory=ResourcesConfig)
    autoscaling: AutoscalingConfig = Field(default_factory=AutoscalingConfig)
    max_concurrent_items: Count | None = Field(
        None, description="items scored at once by a replica; default twice the engine's sequences"
    )
    max_queued_items: Count = Field(
        4096, description="items waiting in a replica; beyond it they are shed as overloaded"
    )
    affinity: bool = Field(
        True,
        description="of several replicas a group's samples go to one, and a batch to all; "
        "else a call goes whole where Serve's power of two choices sends it",
    )

    @model_validator(mode="after")
    def _name_is_free(self) -> Self:
        if self.name == INGRESS_NAME:
            raise ValueError(f"name: {self.name!r} is the HTTP deployment's; choose another")
        return self


class JudgeModel(_Model):
    """A reward model of kind ``judge``: a vLLM engine asked for a verdict."""

    kind: Literal["judge"]
    engine: EngineConfig = Field(default_factory=EngineConfig)
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    cache: CacheConfig = Field(default_factory=CacheConfig)

    @model_validator(mode="after")
    def _resources_fit_the_engine(self) -> Self:
        if self.judge.mode == "generate" and self.judge.max_tokens >= self.engine.max_model_len:
            raise ValueError(
                f"judge.max_tokens: {self.judge.max_tokens} leaves no room for a prompt in "
                f"engine.max_model_len: {self.engine.max_model_len}; raise the latter"
            )
        self.resources.num_gpus = _gpus(self.engine, self.resources.num_gpus)
        on_gpu = self.resources.num_gpus > 0
        self.engine.device = "cuda" if on_gpu else "cpu"
        if self.resources.num_cpus is None:
            self.resources.num_cpus = 1.0 if on_gpu else 2.0
        if self.max_concurrent_items is None:
            self.max_concurrent_items = 2 * self.engine.max_num_seqs
        return self


class RuleModel(_Model):
    """A reward model of kind ``rule``: a verifier alone, on a CPU."""

    kind: Literal["rule"]
    rule: RuleConfig = Field(default_factory=RuleConfig)

    @model_validator(mode="after")
    def _resources_fit_a_rule(self) -> Self:
        if self.resources.num_gpus:
            raise ValueError("resources.num_gpus: a rule runs on a CPU; leave it out")
        self.resources.num_gpus = 0
        if self.resources.num_cpus is None:
            self.resources.num_cpus = 1.0
        if self.max_concurrent_items is None:
            self.max_concurrent_items = 64
        return self


ModelConfig = Annotated[JudgeModel | RuleModel, Field(discriminator="kind")]


class ServerConfig(_Section):
    """The HTTP side."""

    num_replicas: Count = 1
    max_ongoing_requests: Count = 1024
    max_batch_items: Count = 1024
    max_body_bytes: Count = 32 * 2**20


class AppConfig(_Section):
    """``args`` of one Serve application."""

    models: list[ModelConfig] = Field(min_length=1)
    server: ServerConfig = Field(default_factory=ServerConfig)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [model.name for model in self.models]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"models: the name {repeated[0]!r} is given twice; rename one")
        return self


def parse_config(args: dict[str, Any]) -> AppConfig:
    """Read ``args`` of a deployments file.

    Raises:
        ConfigError: names each field at fault, what was found and what would be right.
    """
    try:
        return AppConfig.model_validate(args)
    except ValidationError as error:
        faults = [_explain(fault) for fault in error.errors(include_url=False)]
        raise ConfigError("args: " + "; ".join(faults)) from None


def _gpus(engine: EngineConfig, asked: float | None) -> float:
    tp = engine.tensor_parallel_size
    if engine.device == "cpu":
        if asked:
            raise ValueError(
                f"resources.num_gpus: {asked:g} with engine.device: cpu; drop one of the two"
            )
        if tp > 1:
            raise ValueError(
                f"engine.tensor_parallel_size: {tp} with engine.device: cpu; "
                "tensor parallelism here takes GPUs, so set device: cuda or the size to 1"
            )
        return 0.0
    if asked is None:
        return float(tp) if engine.device == "cuda" or tp > 1 else 0.0
    if engine.device == "cuda" and asked == 0:
        raise ValueError("resources.num_gpus: 0 with engine.device: cuda; leave num_gpus out")
    if asked != tp and not (tp == 1 and asked < 1):
        raise ValueError(
            f"resources.num_gpus: {asked:g} does not fit engine.tensor_parallel_size: {tp}; "
            f"leave it out or set {tp}"
        )
    return asked


def _explain(fault: ErrorDetails) -> str:
    loc = [str(part) for part in fault["loc"]]
    if loc[:1] == ["models"] and len(loc) > 2:
        del loc[2]  # pydantic's tag of the union, not a field
    path = ".".join(loc)
    message = fault["msg"].removeprefix("Value error, ")
    if not path:
        return message
    if fault["type"] == "extra_forbidden":
        return f"{path}: unknown field{_nearest(fault)}"
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        found = fault["input"].get("kind") if isinstance(fault["input"], dict) else fault["input"]
        return f"{path}.kind: must be 'judge' or 'rule' (found {found!r})"
    if fault["type"] in ("missing", "value_error"):
        return f"{path}: {message}"
    return f"{path}: {message} (found {fault['input']!r})"


_SECTIONS: dict[str, type[_Section]] = {
    "engine": EngineConfig,
    "judge": JudgeConfig,
    "cache": CacheConfig,
    "rule": RuleConfig,
    "resources": ResourcesConfig,
    "autoscaling": AutoscalingConfig,
    "server": ServerConfig,
}


def _nearest(fault: ErrorDetails) -> str:
    """What an unknown field may have been meant to be, or where it belongs."""
    *parents, name = fault["loc"]
    section: type[_Section] = AppConfig
    if len(parents) == 3:  # models, its index, its kind
        section = JudgeModel if parents[2] == "judge" else RuleModel
    elif parents:
        section = _SECTIONS.get(str(parents[-1]), AppConfig)
    for owner, known in _SECTIONS.items():
        if name in known.model_fields:
            return f"; it belongs to {owner}"
    near = difflib.get_close_matches(str(name), sorted(section.model_fields), n=1)
    return f"; did you mean {near[0]!r}?" if near else "; remove it"
