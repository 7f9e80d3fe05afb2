"""The configuration of one reward model: a class for each kind, after the sections of that kind.

All kinds share name, resources, autoscaling and the limits on items.
"""

import json
import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

import reward_serve_answers
from reward_serve.config.base import INGRESS_NAME, Count, Seconds, Section
from reward_serve.config.engine import BUNDLED_MODEL, EngineConfig, RemoteConfig
from reward_serve.config.judge import CriteriaConfig, GroupConfig, JudgeConfig, RubricConfig
from reward_serve.schema import MAX_ITEM_BYTES

LENGTH = "length"  # built-in member of a composite: the response's length in characters

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def _in_order(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"{list(bounds)} is empty; write [low, high]")
    return bounds


_Bounds = Annotated[tuple[float, float], AfterValidator(_in_order)]


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
        return self


class VerdictLogConfig(Section):
    """A sample of the verdicts, written as JSON lines by each replica on its node."""

    folder: str | None = Field(None, min_length=1, description="folder of the log; null: no log")
    rate: Annotated[float, Field(ge=0, le=1)] = Field(0.01, description="fraction of requests")
    redact: bool = Field(
        False, description="leave out texts: of the request, the reference and the judge"
    )
    tail_characters: Count = Field(400, description="characters to log from a response's end")
    max_mib: Annotated[float, Field(gt=0)] = Field(64.0, description="disk limit per replica")


class _Model(Section):
    """What all kinds share, and what an application, a command or a replica asks of a kind."""

    rank: ClassVar[int] = 0  # a model asks others, as its members, only of lower ranks
    _why_no_gpu: ClassVar[str] = "a {kind} runs no model itself"
    _num_cpus: ClassVar[float] = 1.0  # without an engine
    _concurrent_items: ClassVar[int] = 256  # likewise
    _items_per_sequence: ClassVar[float] = 2.0  # of an engine

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    kind: str
    resources: ResourcesConfig = Field(default_factory=ResourcesConfig)
    autoscaling: AutoscalingConfig = Field(default_factory=AutoscalingConfig)
    max_concurrent_items: Count | None = Field(
        None,
        description="items scored concurrently by a replica; default: twice engine.max_num_seqs, "
        "or a quarter of it for kind rubric; kind remote: as many as the endpoint takes, up to 256",
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

    @model_validator(mode="after")
    def _resources_fit_the_engine(self) -> Self:
        engine, resources = self.vllm, self.resources
        num_cpus, items = self._num_cpus, float(self._concurrent_items)
        if engine is not None:
            resources.num_gpus = _gpus_of_replica(engine, resources.num_gpus)
            if resources.num_gpus and engine.dtype == "int8":
                raise ValueError(
                    "engine.dtype: int8 is for CPUs, and this is a GPU; write dtype: auto"
                )
            engine.device = "cuda" if resources.num_gpus else "cpu"
            num_cpus = 1.0 if resources.num_gpus else 2.0
            items = self._items_per_sequence * engine.max_num_seqs
        elif resources.num_gpus:
            why = self._why_no_gpu.format(kind=self.kind)
            raise ValueError(f"resources.num_gpus: {why}; remove it")
        resources.num_gpus = float(resources.num_gpus or 0)
        resources.num_cpus = resources.num_cpus or num_cpus
        if self.max_concurrent_items is None:
            self.max_concurrent_items = max(1, round(items))
        return self

    @property
    def endpoint(self) -> RemoteConfig | None:
        """The endpoint that replicas ask; None if they ask none."""
        return getattr(self, "remote", None)

    @property
    def vllm(self) -> EngineConfig | None:
        """The vLLM engine of each replica; None without one."""
        return None if self.endpoint else getattr(self, "engine", None)

    @property
    def checkpoint(self) -> str | None:
        """The model's name on the hub or at its endpoint; None for a folder."""
        if self.endpoint:
            return self.endpoint.model
        return self.vllm.model if self.vllm and _HUB_ID.fullmatch(self.vllm.model) else None

    @property
    def members(self) -> "list[MemberConfig]":
        """The models that it asks, which are in the section named like its kind."""
        return getattr(getattr(self, self.kind, None), "members", [])

    @property
    def reads_rubric(self) -> bool:
        """Whether a request may have a rubric, which a member of this model may read."""
        return any(member.rubric is not False for member in self.members)

    @property
    def first_request(self) -> dict[str, Any] | None:
        """A request that every replica scores before it is ready; None if it may not fit."""
        if self.members:  # which may start later
            return None
        body = {"response": "It is five, or 5.", "reference": "5", "question": "What is 2 + 3?"}
        rubric = [{"name": "first", "text": "It states a number."}]
        return {**body, "rubric": rubric} if self.reads_rubric else body


def _gpus_of_replica(engine: EngineConfig, asked: float | None) -> float:
    """The number of GPUs of a replica, which may be a share of one, or a ValueError."""
    device, tp = engine.device, engine.tensor_parallel_size
    if device == "cpu" and tp > 1:
        raise ValueError(
            f"engine.tensor_parallel_size: {tp} needs GPUs, not engine.device: cpu; "
            "set device: cuda, or the size to 1"
        )
    needed = 0 if device == "cpu" else tp
    default = 0 if device == "auto" and tp == 1 else needed
    if asked is None:
        return float(default)
    is_share = needed == 1 and 0 < asked < 1
    if asked not in (needed, default) and not is_share:
        raise ValueError(
            f"resources.num_gpus: {asked:g} contradicts engine.device: {device} with "
            f"engine.tensor_parallel_size: {tp}; remove it or set {needed}"
        )
    return asked


class JudgeModel(_Model):
    """Kind ``judge``: a language model gives a verdict.

    The model runs on vLLM (``engine``) or behind an OpenAI-compatible endpoint (``remote``).
    ``kind: remote`` is another name for a judge, or with ``rubric`` a rubric, at an endpoint.
    """

    _why_no_gpu = "the model runs at the endpoint"

    kind: Literal["judge", "remote"]
    engine: EngineConfig = Field(default_factory=EngineConfig)
    remote: RemoteConfig | None = Field(None, description="instead of engine")
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    teacher: bool = Field(
        False, description="also give the log-probabilities of tokens, as kind teacher does"
    )
    group: GroupConfig | None = Field(None, description="null: /v1/score/group is refused")
    cache: CacheConfig = Field(default_factory=CacheConfig)

    @model_validator(mode="after")
    def _the_bundled_judge_abstains(self) -> Self:
        judge, trained_on = self.judge, JudgeConfig.model_fields["template"].default
        measured = (judge.template, judge.mode, self.group) == (trained_on, "label", None)
        is_bundled = self.remote is None and self.engine.is_bundled_judge
        if measured and is_bundled and judge.min_probability is None:
            judge.min_probability = judge.bundled_min_probability
        return self

    @model_validator(mode="after")
    def _a_prompt_has_room(self) -> Self:
        if self.remote is not None:
            if self.engine != EngineConfig():
                raise ValueError("engine: is not used beside remote; remove one of the two")
            if self.teacher:
                raise ValueError("teacher: needs an engine, not remote; remove one of the two")
            return self
        if self.teacher:
            self.engine.serve_teacher()
        if self.judge.mode == "generate" and self.judge.max_tokens >= self.engine.max_model_len:
            raise ValueError(
                f"judge.max_tokens: {self.judge.max_tokens} leaves no room for a prompt in "
                f"engine.max_model_len: {self.engine.max_model_len}; raise engine.max_model_len"
            )
        if self.judge.thinking_tokens and not self.engine.ends_thinking:
            raise ValueError(
                f"judge.thinking_tokens: {self.judge.thinking_tokens}, but this engine cannot end "
                "thinking; set engine.engine_kwargs.reasoning_parser (qwen3, say)"
            )
        return self


class RubricModel(JudgeModel):
    """Kind ``rubric``: a language model judges each criterion of a rubric.

    At an endpoint it answers all of a rubric in one text.
    """

    _items_per_sequence = 0.25  # a rubric of eight criteria is eight passes

    kind: Literal["rubric"]  # type: ignore[assignment]  # all else is as for a judge
    judge: CriteriaConfig = Field(default_factory=CriteriaConfig)
    rubric: RubricConfig = Field(default_factory=RubricConfig)

    @property
    def reads_rubric(self) -> bool:
        """Whether a request may have a rubric."""
        return True

    @model_validator(mode="before")
    @classmethod
    def _criteria_are_answered_in_writing(cls, fields: Any) -> Any:
        at_endpoint = isinstance(fields, dict) and fields.get("remote")
        if not at_endpoint or not isinstance(judge := fields.get("judge", {}), dict):
            return fields
        if judge.get("mode") == "label":
            raise ValueError(
                "judge.mode: an endpoint answers all criteria in one text; set generate"
            )
        return {**fields, "judge": {"mode": "generate", **judge}}


class TeacherModel(_Model):
    """Kind ``teacher``: a language model gives the log-probability of each token."""

    rank = 3  # no model asks it for a score

    kind: Literal["teacher"]
    engine: EngineConfig = Field(default_factory=EngineConfig)

    @model_validator(mode="after")
    def _its_engine_gives_logprobs(self) -> Self:
        self.engine.serve_teacher()
        return self

    @property
    def first_request(self) -> dict[str, Any] | None:
        """Tokens that every vocabulary has."""
        return {"token_ids": [0, 1]}


class ClassifierConfig(Section):
    """How the logits of a sequence-classification model become a score."""

    normalisation: Literal["raw", "sigmoid", "affine"] = Field(
        "raw", description="affine: scale * logit + shift"
    )
    scale: float = 1.0
    shift: float = 0.0
    label: Annotated[int, Field(ge=0)] | None = Field(
        None, description="index of the logit that is the reward; required if there are several"
    )
    steps: Literal["min", "mean", "product", "last"] | None = Field(
        None,
        description="for a process reward model, and only for one: how the probabilities that a "
        "step is right become the score",
    )

    @model_validator(mode="after")
    def _settings_are_used(self) -> Self:
        if self.steps and (self.normalisation != "raw" or self.label is not None):
            raise ValueError(
                "steps: a step's score is a probability already; remove normalisation and label"
            )
        if self.normalisation != "affine" and (self.scale, self.shift) != (1.0, 0.0):
            raise ValueError(
                f"scale, shift: not used with normalisation: {self.normalisation}; "
                "set normalisation: affine"
            )
        return self


class ClassifierModel(_Model):
    """Kind ``classifier``: a sequence-classification model's logit is the score."""

    kind: Literal["classifier"]
    engine: EngineConfig = Field(default_factory=EngineConfig)
    classifier: ClassifierConfig = Field(default_factory=ClassifierConfig)

    @model_validator(mode="after")
    def _the_model_is_named(self) -> Self:
        engine = self.engine
        if engine.model == BUNDLED_MODEL:
            raise ValueError(
                "engine.model: the bundled model is a judge; set a sequence-classification model"
            )
        if self.classifier.steps:  # vLLM reads all tokens of such a prompt in one step
            engine.enable_prefix_caching = False
            if engine.max_num_batched_tokens is None:
                engine.max_num_batched_tokens = 4 * engine.max_model_len
        return self


VerifierName = Literal[
    reward_serve_answers.VerifierName,
    "regex", "tool_call", "json_schema", "code", "constraints", "function",
]  # fmt: skip
"""All verifiers; ``reward_serve.reward_models.rule`` makes them."""


class CodeConfig(Section):
    """How programs are run and scored."""

    aggregate: Literal["all", "share"] = Field(
        "all", description="1.0 if all tests pass; or the share of those that pass"
    )
    language: str = Field(
        "python", description="of the programs, in SandboxFusion's names; others need sandbox_url"
    )
    sandbox_url: str | None = Field(
        None,
        pattern="^https?://",
        description="a SandboxFusion server's /run_code; default: the sandbox of this machine",
    )
    test_s: float = Field(
        6.0, gt=0, description="seconds for a test: of CPU time, or a third of the real time"
    )
    total_s: float = Field(18.0, gt=0, description="seconds for all tests, measured likewise")
    memory_mib: int = Field(512, ge=64, le=1000, description="of a program, in MiB")

    @model_validator(mode="after")
    def _python_runs_here(self) -> Self:
        if self.language != "python" and self.sandbox_url is None:
            raise ValueError(
                f"language: {self.language!r} does not run on this machine; set sandbox_url, or "
                "language: python"
            )
        return self


class ConstraintsConfig(Section):
    """How constraints are read and scored."""

    aggregate: Literal["all", "share"] = Field(
        "all", description="1.0 if all are followed; or the share of those that are"
    )
    loose: bool = Field(
        False,
        description="whether it is enough to follow one without asterisks, the first or the last "
        "line, as for IFEval's loose accuracy",
    )


class RuleConfig(Section):
    """The verifier of a rule."""

    verifier: VerifierName = "gsm8k"
    pattern: re.Pattern[str] | None = Field(
        None, description="verifier: regex; the first group of its last match is the answer"
    )
    function: str | None = Field(
        None, description="verifier: function; package.module:name, imported at replica start"
    )
    ordered: bool = Field(
        False, description="verifier: tool_call; whether the order of parallel calls counts"
    )
    code: CodeConfig = Field(
        default_factory=CodeConfig, description="verifier: code; how programs are run and scored"
    )
    constraints: ConstraintsConfig = Field(
        default_factory=ConstraintsConfig,
        description="verifier: constraints; how they are read and scored",
    )

    @model_validator(mode="after")
    def _settings_are_the_verifiers(self) -> Self:
        for field, verifier in (("pattern", "regex"), ("function", "function")):
            if (getattr(self, field) is None) is (self.verifier == verifier):
                raise ValueError(
                    f"{field}: verifier: {verifier} needs it and no other has it; set both, or "
                    f"neither (found verifier: {self.verifier})"
                )
        others = {
            "ordered": (self.ordered, "tool_call"),
            "code": (self.code != CodeConfig(), "code"),
            "constraints": (self.constraints != ConstraintsConfig(), "constraints"),
        }
        for field, (is_set, verifier) in others.items():
            if is_set and self.verifier != verifier:
                raise ValueError(
                    f"{field}: only verifier: {verifier} has it; remove it (found {self.verifier})"
                )
        if self.function is not None and not _FUNCTION.fullmatch(self.function):
            raise ValueError(
                f"function: {self.function!r} is not an import path; write package.module:name"
            )
        return self


class RuleModel(_Model):
    """Kind ``rule``: a verifier without a model, on a CPU."""

    _why_no_gpu = "a rule runs on a CPU"
    _concurrent_items = 64

    kind: Literal["rule"]
    rule: RuleConfig = Field(default_factory=RuleConfig)

    @property
    def reads_rubric(self) -> bool:
        """Whether a request may have a rubric: the user's function gets the whole request."""
        return self.rule.function is not None

    @property
    def first_request(self) -> dict[str, Any] | None:
        """A request, unless the user's function may need other fields."""
        if self.rule.verifier == "code" and self.rule.code.language == "python":
            tests = {"inputs": [""], "outputs": ["5"]}
            return {"response": "print(5)", "reference": json.dumps(tests)}
        if self.rule.verifier == "constraints":
            no_comma = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
            return {"response": "It is five.", "reference": json.dumps(no_comma)}
        return None if self.rule.function else super().first_request


class GateConfig(Section):
    """A condition on another member's score."""

    member: str = Field(min_length=1, description="the other member's name in results")
    below: float = Field(description="if the other's score is below this, the gated score is 0")


class MemberConfig(Section):
    """A member of a composite. Its score is clipped first, then gated, then weighted."""

    model: str = Field(min_length=1, description="the reward model's name, or length")
    application: str | None = Field(
        None, min_length=1, description="its Serve application; default: the composite's"
    )
    template: str | None = Field(
        None, min_length=1, description="its template; default: the request's, or the model's"
    )
    rubric: bool | None = Field(
        None,
        description="send it the request's rubric; default: whether its kind reads one, or true in "
        "another application",
    )
    weight: float = Field(1.0, description="may be negative with aggregate: sum")
    clip: _Bounds | None = Field(None, description="lowest and highest score")
    gate: GateConfig | None = None

    @property
    def name(self) -> str:
        """The member's unique name in results: application, model and template."""
        name = f"{self.application}/{self.model}" if self.application else self.model
        return f"{name}:{self.template}" if self.template else name


def _named(member: Any) -> Any:
    return {"model": member} if isinstance(member, str) else member


def _differ(members: list[MemberConfig]) -> list[MemberConfig]:
    names = [member.name for member in members]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{repeated[0]!r} is listed twice; remove one")
    return members


_Members = Annotated[
    list[
        Annotated[MemberConfig, BeforeValidator(_named, json_schema_input_type=str | MemberConfig)]
    ],
    AfterValidator(_differ),
]


class CompositeConfig(Section):
    """The members of a composite and how their scores are combined."""

    members: _Members = Field(
        min_length=2, max_length=16, description="names, or names with settings"
    )
    aggregate: Literal["vote", "mean", "sum"] = Field(
        "vote",
        description="vote: 1 if more than half of the weight votes right; mean: weighted mean; "
        "sum: weighted sum",
    )
    threshold: float = Field(0.5, description="a member with at least this score votes right")
    quorum: Count | None = Field(
        None,
        description="minimum number of members with a score; default: more than half, or all for "
        "a sum",
    )

    @model_validator(mode="after")
    def _the_members_fit(self) -> Self:
        names = [member.name for member in self.members]
        for member in self.members:
            if member.weight == 0 or (member.weight < 0 and self.aggregate != "sum"):
                raise ValueError(
                    f"members: {member.name!r} has weight {member.weight:g}, which must be above "
                    "0, or with aggregate: sum below 0"
                )
            others = [name for name in names if name != member.name]
            if member.gate is not None and member.gate.member not in others:
                raise ValueError(
                    f"members: the gate of {member.name!r} names {member.gate.member!r}; choose "
                    f"from {', '.join(others)}"
                )
        if self.quorum is None:
            self.quorum = len(names) if self.aggregate == "sum" else len(names) // 2 + 1
        if self.quorum > len(names):
            raise ValueError(
                f"quorum: {self.quorum} is above the number of members, {len(names)}; "
                "lower it or add members"
            )
        return self


class CompositeModel(_Model):
    """Kind ``composite``: combines the scores of several other models."""

    rank = 2
    _num_cpus = 0.5

    kind: Literal["composite"]
    composite: CompositeConfig


class CascadeConfig(Section):
    """The members of a cascade, in the order in which they are asked."""

    members: _Members = Field(
        min_length=2, max_length=4, description="names, or names with settings; the smallest first"
    )
    unsure: _Bounds = Field(
        (0.2, 0.8),
        description="the next member is asked if the probability of right (without probabilities "
        "of two labels: the score) is within",
    )

    @model_validator(mode="after")
    def _members_have_no_weights(self) -> Self:
        for member in self.members:
            given = member.model_dump(exclude_defaults=True)
            if unused := given.keys() & {"weight", "clip", "gate"}:
                raise ValueError(
                    f"members: {member.model!r} has {', '.join(sorted(unused))}, which a cascade "
                    "does not use; remove it"
                )
        return self


class CascadeModel(_Model):
    """Kind ``cascade``: asks other models in order until one is sure."""

    rank = 1
    _num_cpus = 0.5

    kind: Literal["cascade"]
    cascade: CascadeConfig


def _with_kind(fields: Any) -> Any:
    if isinstance(fields, dict) and fields.get("kind") == "remote":
        fields = {**fields, "remote": fields.get("remote") or {}}
        if fields.get("rubric") is not None:
            return {**fields, "kind": "rubric"}
        fields.pop("rubric", None)
    return fields


ModelConfig = Annotated[
    JudgeModel
    | RubricModel
    | TeacherModel
    | ClassifierModel
    | RuleModel
    | CompositeModel
    | CascadeModel,
    Field(discriminator="kind"),
    BeforeValidator(_with_kind),
]
