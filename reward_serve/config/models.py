"""The configuration of one reward model, a class for each kind.

All kinds share name, resources, autoscaling and the limits on items.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from reward_serve.config.base import INGRESS_NAME, Count, Seconds, Section
from reward_serve.config.engine import (
    BUNDLED_MODEL,
    EngineConfig,
    RemoteConfig,
    ends_thinking,
    gpus_of_replica,
)
from reward_serve.config.judge import CriteriaConfig, GroupConfig, JudgeConfig, RubricConfig
from reward_serve.config.kinds import (
    LENGTH,
    CascadeConfig,
    ClassifierConfig,
    CompositeConfig,
    MemberConfig,
    RuleConfig,
)
from reward_serve.schema import MAX_ITEM_BYTES, describe_errors


class CacheConfig(Section):
    """A replica's cache of the engine's outputs, keyed by the prompt's tokens.

    Concurrent requests with the same prompt share one call to the engine.
    """

    enabled: bool = True
    max_mib: Annotated[float, Field(gt=0)] = 64.0


class ResourcesConfig(Section):
    """The resources that one replica requests from Ray."""

    num_cpus: Annotated[float, Field(gt=0)] | None = None
    num_gpus: Annotated[float, Field(ge=0)] | None = None
    accelerator_type: str | None = None
    runtime_env: dict[str, Any] | None = None


class AutoscalingConfig(Section):
    """Scale replicas with the number of items (not calls) in flight."""

    min_replicas: Annotated[int, Field(ge=0)] = 1
    max_replicas: Count = 1
    initial_replicas: Annotated[int, Field(ge=0)] | None = None
    target_items: Annotated[float, Field(gt=0)] | None = Field(
        None, description="target items in flight per replica; default: max_concurrent_items"
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
                f"{self.min_replicas}..{self.max_replicas}; choose a number in this range"
            )
        return self


class VerdictLogConfig(Section):
    """A sample of the verdicts, written as JSON lines by each replica on its node."""

    folder: str | None = Field(None, min_length=1, description="folder of the log; null: no log")
    rate: Annotated[float, Field(ge=0, le=1)] = Field(0.01, description="fraction of requests")
    redact: bool = Field(False, description="leave out the response and the reference")
    tail_characters: Count = Field(400, description="characters to log from a response's end")
    max_mib: Annotated[float, Field(gt=0)] = Field(64.0, description="disk limit per replica")


class _Model(Section):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    resources: ResourcesConfig = Field(default_factory=ResourcesConfig)
    autoscaling: AutoscalingConfig = Field(default_factory=AutoscalingConfig)
    max_concurrent_items: Count | None = Field(
        None,
        description="items scored concurrently by a replica; default: twice engine.max_num_seqs, "
        "or a quarter of it for kind rubric",
    )
    max_queued_items: Count = Field(
        4096, description="items waiting in a replica; further items are rejected as overloaded"
    )
    affinity: bool = Field(
        True,
        description="send a group's samples to one replica and split a batch over all replicas; "
        "if false, Serve's power of two choices picks one replica per call",
    )
    max_item_bytes: Count = Field(
        MAX_ITEM_BYTES,
        le=MAX_ITEM_BYTES,
        description="maximum total bytes of an item's texts in UTF-8; a larger item is invalid",
    )
    verdict_log: VerdictLogConfig = Field(default_factory=VerdictLogConfig)

    @model_validator(mode="after")
    def _name_is_free(self) -> Self:
        taken = {INGRESS_NAME: "the HTTP deployment", LENGTH: "a built-in member of composites"}
        if self.name in taken:
            raise ValueError(f"name: {self.name!r} names {taken[self.name]}; choose another")
        return self


class _EngineModel(_Model):
    _items_per_sequence: ClassVar[float] = 2.0
    engine: EngineConfig = Field(default_factory=EngineConfig)

    @model_validator(mode="after")
    def _resources_fit_the_engine(self) -> Self:
        self.resources.num_gpus = gpus_of_replica(self.engine, self.resources.num_gpus)
        on_gpu = self.resources.num_gpus > 0
        self.engine.device = "cuda" if on_gpu else "cpu"
        if on_gpu and self.engine.dtype == "int8":
            raise ValueError("engine.dtype: int8 is for CPUs, and this is a GPU; write dtype: auto")
        if self.resources.num_cpus is None:
            self.resources.num_cpus = 1.0 if on_gpu else 2.0
        if self.max_concurrent_items is None:
            items = self._items_per_sequence * self.engine.max_num_seqs
            self.max_concurrent_items = max(1, round(items))
        return self


class JudgeModel(_EngineModel):
    """Kind ``judge``: a language model on vLLM gives a verdict."""

    kind: Literal["judge"]
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    group: GroupConfig | None = Field(None, description="null: /v1/score/group is refused")
    cache: CacheConfig = Field(default_factory=CacheConfig)

    @model_validator(mode="after")
    def _a_prompt_has_room(self) -> Self:
        if self.judge.mode == "generate" and self.judge.max_tokens >= self.engine.max_model_len:
            raise ValueError(
                f"judge.max_tokens: {self.judge.max_tokens} leaves no room for a prompt in "
                f"engine.max_model_len: {self.engine.max_model_len}; raise engine.max_model_len"
            )
        if self.judge.thinking_tokens and not ends_thinking(self.engine):
            raise ValueError(
                f"judge.thinking_tokens: {self.judge.thinking_tokens}, but this engine cannot end "
                "thinking; set engine.engine_kwargs.reasoning_parser (qwen3, say)"
            )
        return self


class RubricModel(JudgeModel):
    """Kind ``rubric``: a language model on vLLM judges each criterion of a rubric."""

    _items_per_sequence = 0.25  # a rubric of eight criteria is eight passes
    kind: Literal["rubric"]  # type: ignore[assignment]  # all else is as for a judge
    judge: CriteriaConfig = Field(default_factory=CriteriaConfig)
    rubric: RubricConfig = Field(default_factory=RubricConfig)


class ClassifierModel(_EngineModel):
    """Kind ``classifier``: a sequence-classification model's logit is the score."""

    kind: Literal["classifier"]
    classifier: ClassifierConfig = Field(default_factory=ClassifierConfig)

    @model_validator(mode="after")
    def _the_model_is_named(self) -> Self:
        if self.engine.model == BUNDLED_MODEL:
            raise ValueError(
                "engine.model: the bundled model is a judge; set a sequence-classification model"
            )
        return self


class _CoresModel(_Model):
    """A reward model without an engine."""

    _why_no_gpu: ClassVar[str]
    _num_cpus: ClassVar[float] = 1.0
    _concurrent_items: ClassVar[int]

    @model_validator(mode="after")
    def _resources_fit_cores(self) -> Self:
        if self.resources.num_gpus:
            raise ValueError(f"resources.num_gpus: {self._why_no_gpu}; remove it")
        self.resources.num_gpus = 0
        if self.resources.num_cpus is None:
            self.resources.num_cpus = self._num_cpus
        if self.max_concurrent_items is None:
            self.max_concurrent_items = self._concurrent_items
        return self


class RemoteModel(_CoresModel):
    """Kind ``remote``: a model behind an OpenAI-compatible endpoint gives a verdict.

    With a section ``rubric`` it judges criteria, all of a rubric in one written answer.
    """

    _why_no_gpu = "the model runs at the endpoint"
    _concurrent_items = 32

    kind: Literal["remote"]
    remote: RemoteConfig
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    rubric: RubricConfig | None = None
    group: GroupConfig | None = None
    cache: CacheConfig = Field(default_factory=CacheConfig)

    @model_validator(mode="after")
    def _criteria_are_answered_in_writing(self) -> Self:
        if self.rubric is not None:
            settings = {"mode": "generate", **self.judge.model_dump(exclude_unset=True)}
            try:
                self.judge = CriteriaConfig.model_validate(settings)
            except ValidationError as error:
                raise ValueError(f"judge.{describe_errors(error)}") from None
            if self.judge.mode == "label":
                raise ValueError(
                    "judge.mode: an endpoint answers all criteria in one text; set generate"
                )
        return self


class RuleModel(_CoresModel):
    """Kind ``rule``: a verifier without a model, on a CPU."""

    _why_no_gpu = "a rule runs on a CPU"
    _concurrent_items = 64

    kind: Literal["rule"]
    rule: RuleConfig = Field(default_factory=RuleConfig)


class CombinedModel(_CoresModel):
    """A reward model that asks others: the members in the section named like its kind."""

    _num_cpus = 0.5
    _concurrent_items = 256

    kind: str

    @property
    def members(self) -> list[MemberConfig]:
        """The models that it asks."""
        section: CompositeConfig | CascadeConfig = getattr(self, self.kind)
        return section.members


class CompositeModel(CombinedModel):
    """Kind ``composite``: combines the scores of several other models."""

    _why_no_gpu = "a composite runs no model itself"

    kind: Literal["composite"]
    composite: CompositeConfig


class CascadeModel(CombinedModel):
    """Kind ``cascade``: asks other models in order until one is sure."""

    _why_no_gpu = "a cascade runs no model itself"

    kind: Literal["cascade"]
    cascade: CascadeConfig


ModelConfig = Annotated[
    JudgeModel
    | RubricModel
    | ClassifierModel
    | RemoteModel
    | RuleModel
    | CompositeModel
    | CascadeModel,
    Field(discriminator="kind"),
]


def reads_rubric(model: ModelConfig) -> bool:
    """Whether a request to this model may have a rubric."""
    match model:
        case RuleModel():
            return model.rule.verifier == "function"  # which gets the whole request
        case RemoteModel():
            return model.rubric is not None
        case CombinedModel():
            return any(member.rubric is not False for member in model.members)
    return isinstance(model, RubricModel)
