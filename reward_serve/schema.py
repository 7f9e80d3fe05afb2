"""The wire contract: requests, results and their fields.

    >>> ScoreRequest(response="The answer is 18.", reference="18").timeout_s
    60.0

Handles and HTTP carry these models as plain dicts, so trainers unpickle no class of this package.
"""

import difflib
import json
import reprlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from reward_serve.criteria import CriteriaOrName
from reward_serve.messages import Message, Name, Text, as_json, tool, unicode_text, utf8_bytes

MAX_METADATA_BYTES = 65_536
MAX_ITEM_BYTES = 2**20  # of an item's texts in UTF-8
MAX_TIMEOUT_S = 3600.0
DEFAULT_TIMEOUT_S = 60.0
MAX_REFERENCES = 64
MAX_RESPONSES = 64  # of a group
MAX_MESSAGES = 200
MAX_TOOLS = 128
MAX_VALUES = 2**14  # JSON values of a request besides its metadata

_SIMILAR = 0.7
# What trainers and data sets call these fields.
_OTHER_NAMES = {
    "answer": "reference", "ground_truth": "reference", "solution": "reference",
    "completion": "response", "output": "response", "prompt": "question",
}  # fmt: skip
_MAX_FAULTS = 16
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 40


def more_values_than(value: object, most: int) -> bool:
    """Whether JSON data contains more than ``most`` values; stops counting there."""
    left, count = [value], 0
    while left:
        node = left.pop()
        if isinstance(node, dict | list):
            count += len(node)
            if count > most:
                return True
            left += node.values() if isinstance(node, dict) else node
    return False


def _small(metadata: object) -> object:
    if more_values_than(metadata, MAX_METADATA_BYTES // 2):  # a value takes two bytes or more
        raise ValueError(f"takes more than {MAX_METADATA_BYTES} bytes as JSON; send less")
    return metadata


def _json(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        size = len(json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"cannot be written as JSON: {error}") from None
    if size > MAX_METADATA_BYTES:
        raise ValueError(
            f"takes {size} bytes as JSON; the limit is {MAX_METADATA_BYTES}, so send less"
        )
    return metadata


def _whole(value: object) -> object:
    # JSON Schema accepts 5.0 as an integer.
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(strict=True, ge=1), BeforeValidator(_whole)]
GroupSize = Annotated[int, Field(strict=True, ge=2, le=64), BeforeValidator(_whole)]
Timeout = Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S, allow_inf_nan=False, strict=True)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**31), BeforeValidator(_whole)]
Metadata = Annotated[dict[str, JsonValue], BeforeValidator(_small), AfterValidator(_json)]


class Status(StrEnum):
    """How a request ended. ``score`` is null exactly when this is not ``ok``."""

    # A retry is likelier to change the later ones, of which an aggregate reports the last.
    OK = "ok"
    INVALID = "invalid"  # the request is, or the function that scores it fails; do not retry
    UNPARSEABLE = "unparseable"  # the judge's answer contains no verdict
    TRUNCATED = "truncated"  # the judge reached its token limit before its verdict
    ERROR = "error"  # the reward model failed; retry
    TIMEOUT = "timeout"  # the deadline ``timeout_s`` passed; the work was aborted
    OVERLOADED = "overloaded"  # the queue was full; retry after a pause

    @property
    def is_retried(self) -> bool:
        """Whether clients retry it before the deadline."""
        return self in (Status.ERROR, Status.OVERLOADED)

    @property
    def is_passing(self) -> bool:
        """Whether the same request may have a score later, with a new deadline."""
        return self.is_retried or self is Status.TIMEOUT

    @property
    def http_code(self) -> int:
        """That of a single result; one without a verdict of the judge is still 200."""
        return {"invalid": 422, "error": 502, "overloaded": 503, "timeout": 504}.get(self, 200)


REFUSED: dict[str, Any] = {"refused": True}
"""``details`` of an invalid result where all others will be: a wrong key, no such model."""
PAUSE_S = "retry_after_s"
"""In ``details``: the pause before a retry, in seconds."""
DOWN_S = "endpoint_down_s"
"""In ``details``: for how long the model's endpoint has been down, in seconds."""
Mode = Literal["label", "generate", "likelihood"]
Source = Literal["judge", "rule", "classifier", "remote", "composite", "cache", "fallback"]


class Options(BaseModel, extra="forbid", strict=True, allow_inf_nan=False):
    """Per-request settings; a deployment rejects those that it does not allow."""

    mode: Mode | None = Field(
        None,
        description="label: one forward pass; generate: the judge writes text; likelihood: how "
        "probable it finds the reference.",
    )
    temperature: float | None = Field(None, ge=0, le=2, description="In generate mode.")
    top_p: float | None = Field(None, gt=0, le=1, description="In generate mode.")
    max_tokens: Count | None = Field(
        None, description="Maximum tokens the judge generates, in generate mode."
    )
    enable_thinking: bool | None = Field(
        None, description="Passed to chat templates with this setting (Qwen3)."
    )
    thinking_tokens: Count | None = Field(
        None, description="Maximum tokens of max_tokens for thinking, which the engine then ends."
    )
    cache: bool | None = Field(None, description="False: bypass the judge's cache.")


class ScoreRequest(BaseModel, extra="forbid"):
    """A request for the reward of a response, or of a conversation's last assistant turn."""

    response: Text | None = Field(
        None,
        description="The text to score, which follows messages; null if messages contain it.",
    )
    reference: str | list[str] | None = Field(
        None,
        description="A gold answer or solution; of several, the best match is used.",
    )
    question: Text | None = Field(None, description="The prompt that the response answers.")
    messages: list[Message] | None = Field(
        None,
        max_length=MAX_MESSAGES,
        description="A conversation. Without response, its last assistant turn is scored.",
    )
    tools: list[dict[str, JsonValue]] | None = Field(
        None, max_length=MAX_TOOLS, description="The tools of the conversation, with their schemas."
    )
    turns: bool = Field(
        False,
        strict=True,
        description="Score each assistant turn too, as components turn_1, turn_2...",
    )
    model: Name | None = Field(
        None, description="Name of the reward model; default: the application's first."
    )
    template: Text | None = Field(
        None, description="Name of the judging template; default: the deployment's."
    )
    rubric: CriteriaOrName | None = Field(
        None,
        description="Criteria, or the name of a rubric of the deployment, for kind rubric; "
        "default: the deployment's.",
    )
    group: Name | None = Field(
        None, description="Key of the prompt in GRPO; a group's requests go to one replica."
    )
    group_size: GroupSize | None = Field(
        None,
        description="Judge the requests of one group against each other once this many have "
        "arrived, or in time for their deadline; needs group.",
    )
    options: Options = Field(default_factory=Options)
    id: Name | None = Field(None, description="Echoed in the result.")
    metadata: Metadata | None = Field(
        None,
        description=f"Echoed in the result; at most {MAX_METADATA_BYTES} bytes as JSON.",
    )
    timeout_s: Timeout = Field(DEFAULT_TIMEOUT_S, description="Deadline, in seconds.")

    @model_validator(mode="before")
    @classmethod
    def _has_few_values(cls, data: Any) -> Any:
        if isinstance(data, dict) and more_values_than({**data, "metadata": None}, MAX_VALUES):
            raise ValueError(f"has more than {MAX_VALUES} values besides its metadata; send less")
        return data

    @field_validator("reference", mode="before")
    @classmethod
    def _references_are_text(cls, value: Any) -> Any:
        references = value if isinstance(value, list) else [value]
        if value is None:
            return value
        if not references or not all(isinstance(r, str) and r.strip() for r in references):
            raise ValueError("must be a non-blank string, or a non-empty list of them")
        if len(references) > MAX_REFERENCES:
            raise ValueError(f"accepts at most {MAX_REFERENCES} references; send fewer")
        for reference in references:
            unicode_text(reference)
        return value

    @field_validator("tools", mode="before")
    @classmethod
    def _tools_have_one_form(cls, value: Any) -> Any:
        return list(map(tool, value)) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _one_response_is_scored(self) -> Self:
        roles = [message.role for message in self.messages or ()]
        if self.response is None and "assistant" not in roles:
            raise ValueError("response: is missing; send it, or messages with an assistant's turn")
        if self.response is not None and roles[-1:] == ["assistant"]:
            raise ValueError(
                "messages: the last turn is the assistant's, but the response follows it; remove "
                "that turn, or the response"
            )
        return self

    @property
    def judged(self) -> str:
        """The text to score: the response, or that of the last assistant turn."""
        if self.response is not None:
            return self.response
        turns = reversed(self.messages or ())
        return next((turn.text for turn in turns if turn.role == "assistant"), "")

    @property
    def conversation(self) -> list[Message]:
        """All turns: the messages, after the question if they have no user's, then the response."""
        turns = list(self.messages or ())
        if self.question and not any(turn.role == "user" for turn in turns):
            turns.insert(0, Message(role="user", content=self.question))
        if self.response is not None:
            turns.append(Message(role="assistant", content=self.response))
        return turns

    @property
    def states(self) -> "list[ScoreRequest]":
        """The request as it was before the first assistant turn, and after each with its tools'."""
        turns = self.conversation
        begins = [i for i, turn in enumerate(turns) if turn.role == "assistant"]
        fields: dict[str, Any] = {"response": None, "turns": False, "id": None}
        return [
            self.model_copy(update={**fields, "messages": turns[:end]})
            for end in [*begins, len(turns)]
        ]

    @property
    def references(self) -> list[str]:
        """The references as a list; empty if there are none."""
        if self.reference is None:
            return []
        return [self.reference] if isinstance(self.reference, str) else self.reference

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of UTF-8 in each field that a reward model reads."""
        rubric = self.rubric or []
        criteria = [rubric] if isinstance(rubric, str) else [criterion.text for criterion in rubric]
        return {
            "response": utf8_bytes(self.response or ""),
            "reference": sum(map(utf8_bytes, self.references)),
            "question": utf8_bytes(self.question or ""),
            "messages": sum(message.size for message in self.messages or ()),
            "tools": utf8_bytes(as_json(self.tools)) if self.tools else 0,
            "template": utf8_bytes(self.template or ""),
            "rubric": sum(map(utf8_bytes, criteria)),
        }


class Usage(BaseModel, json_schema_serialization_defaults_required=True):
    """The tokens that the reward model's engine processed for a request."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


class ResultModel(BaseModel):
    """The base of results: no other fields, no NaN or infinity; the JSON schema requires all."""

    model_config = ConfigDict(
        extra="forbid", allow_inf_nan=False, json_schema_serialization_defaults_required=True
    )


def _score_matches_status(part: Any) -> Any:
    if (part.score is None) is (part.status is Status.OK):
        raise ValueError(f"score={part.score!r} does not fit status={part.status.value!r}")
    return part


class Component(ResultModel):
    """The score of one criterion of a rubric, member of a composite, or turn."""

    score: float | None = Field(None, description="Null exactly when status is not ok.")
    status: Status
    reason: str | None = Field(None, description="As of a result.")
    probabilities: dict[str, float] | None = None

    _score_matches_status = model_validator(mode="after")(_score_matches_status)


class ScoreResult(ResultModel):
    """The result of a request. All have the same keys, except ``components`` and ``critique``.

    A failure has a ``status`` that is not ``ok``, and ``score: null``, never a number.
    """

    id: str | None = None
    score: float | None = None
    status: Status
    source: str | None = Field(  # not Source: a later service may have another kind
        None, description=f"What produced the score: {', '.join(get_args(Source))}; else null."
    )
    label: str | None = Field(None, description="The judge's likeliest label.")
    probabilities: dict[str, float] | None = Field(
        None, description="Label to probability, over the template's labels."
    )
    components: dict[str, Component] | None = Field(
        None,
        exclude_if=lambda parts: parts is None,  # older clients reject unknown keys
        description="Name to the score of each part; the key is absent if there are none.",
    )
    text: str | None = Field(None, description="The judge's text, in generate mode.")
    reason: str | None = Field(
        None, description="Why there is no score, and the remedy; or what the judge wrote first."
    )
    critique: str | None = Field(
        None,
        exclude_if=lambda critique: critique is None,
        description="The judge's sentence for the policy, if the template asks for one and it "
        "tells no reference's final answer; else the key is absent.",
    )
    model: str | None = None
    template: str | None = None
    fingerprint: str | None = Field(
        None,
        description="Weights, adapter, template, mode, budget, generation settings, dtype, device "
        "and engine version: at temperature 0, the same fingerprint and input give the same label.",
    )
    details: dict[str, JsonValue] | None = Field(
        None, description="What was cut from the input or not shown, which rule decided."
    )
    usage: Usage = Field(default_factory=Usage)
    latency_ms: float = Field(0.0, description="Time in the replica, queueing included.")
    metadata: dict[str, JsonValue] | None = None

    _score_matches_status = model_validator(mode="after")(_score_matches_status)


def probability_right(result: ScoreResult) -> float | None:
    """The probability that the response is right; None without a score.

    Of two labels, the probability of the better one. Other results, such as a rule's or those of
    generate mode, have only their score.
    """
    probabilities = result.probabilities or {}
    if result.score not in (0.0, 1.0) or len(probabilities) != 2:
        return result.score
    return (max if result.score >= 0.5 else min)(probabilities.values())


def hint(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: a similar one, or all of them."""
    known = sorted(known)
    other = _OTHER_NAMES.get(name)
    near = [other] if other in known else difflib.get_close_matches(name, known, 1, _SIMILAR)
    return f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"


def describe_errors(error: ValidationError, of: type[BaseModel] | None = None) -> str:
    """The first invalid fields, their errors and values, in one line; with hints of ``of``'s."""
    parts: list[str] = []
    faults = error.errors(include_url=False, include_context=False)
    for fault in faults[:_MAX_FAULTS]:
        loc = fault["loc"]
        field = ".".join(_short(str(part)) for part in loc) or "request"
        if fault["type"] == "extra_forbidden":
            known = _fields(of, loc[:-1])
            remedy = f" ({hint(str(loc[-1]), known)})" if known else ""
            parts.append(f"{field}: unknown field{remedy}")
        else:
            message = fault["msg"].removeprefix("Value error, ")
            names_its_field = of is not None and message.partition(":")[0] in of.model_fields
            if loc or not names_its_field:
                message = f"{field}: {message}{_found(fault)}"
            parts.append(message)
    if len(faults) > _MAX_FAULTS:
        parts.append(f"and {len(faults) - _MAX_FAULTS} more")
    return "; ".join(dict.fromkeys(parts))


def _fields(of: type[BaseModel] | None, loc: tuple[int | str, ...]) -> Iterable[str]:
    """Fields of the model at a place in another one; none if it is in a list."""
    for part in loc:
        field = of.model_fields.get(str(part)) if of else None
        types = (field.annotation, *get_args(field.annotation)) if field else ()
        models = (t for t in types if isinstance(t, type) and issubclass(t, BaseModel))
        of = next(models, None)
    return of.model_fields if of else ()


def _found(fault: Any) -> str:
    if fault["type"] == "missing":
        return ""
    value = fault["input"]
    if isinstance(value, str | bytes | list | dict) and len(value) > 40:
        return f" (found {type(value).__name__} of length {len(value)})"
    try:
        return f" (found {_short(_REPR.repr(value))})"
    except (ValueError, RecursionError):  # for example an integer with too many digits
        return f" (found {type(value).__name__})"


def _short(text: str) -> str:
    """The text as printable ASCII, at most 80 characters."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    return escaped if len(escaped) <= 80 else f"{escaped[:77]}..."


def echoes(request: object) -> dict[str, Any]:
    """``id`` and ``metadata`` of a request; of a dict, each only if it is valid."""
    if isinstance(request, BaseModel):
        return request.model_dump(include={"id", "metadata"})
    if not isinstance(request, dict):
        return {}
    kept: dict[str, Any] = {}
    for key in ("id", "metadata"):
        try:
            ScoreRequest.model_validate({"response": "", key: request.get(key)})
        except ValidationError:
            continue
        kept[key] = request.get(key)
    return kept


def seconds_in(details: object, name: str) -> float:
    """A time in a result's ``details``: 0 without it, at most ``MAX_TIMEOUT_S`` if it is longer."""
    seconds = details.get(name) if isinstance(details, dict) else None
    return float(min(seconds, MAX_TIMEOUT_S)) if isinstance(seconds, int | float) else 0.0


def retry_details(results: Iterable[Any]) -> dict[str, JsonValue]:
    """What the ``details`` of results say of a retry, for one that needs them all."""
    details, names = [result.details or {} for result in results], (PAUSE_S, DOWN_S)
    return {n: max(d[n] for d in details if n in d) for n in names if any(n in d for d in details)}


def longest_timeout_s(requests: Iterable[object]) -> float:
    """The longest valid ``timeout_s`` of the requests; the default if none has one."""
    given = (request.get("timeout_s") for request in requests if isinstance(request, dict))
    numbers = (value for value in given if isinstance(value, int | float))
    return max((s for s in numbers if 0 < s <= MAX_TIMEOUT_S), default=DEFAULT_TIMEOUT_S)


def failure(status: Status, reason: str, **fields: Any) -> ScoreResult:
    """A result without a score."""
    return ScoreResult(status=status, reason=reason, **fields)


Strategy = Literal["all_pairs", "circular", "swiss"]
"""Which pairs of a group's responses to compare."""


class GroupRequest(BaseModel, extra="forbid"):
    """A request to judge ``responses`` against each other. Common fields: see ``ScoreRequest``."""

    responses: list[Text] = Field(min_length=2, max_length=MAX_RESPONSES)
    question: Text | None = Field(None, description="The prompt that the responses answer.")
    messages: list[Message] | None = Field(
        None, max_length=MAX_MESSAGES, description="The prompt as a conversation, if no question."
    )
    reference: Text | None = Field(None, description="A gold answer, for templates that show it.")
    strategy: Strategy | None = Field(
        None, description="Which pairs to compare; default: the deployment's."
    )
    model: Name | None = None
    template: Text | None = Field(None, description="A group template; default: the deployment's.")
    group: Name | None = Field(None, description="Key that selects the replica.")
    id: Name | None = None
    metadata: Metadata | None = None
    timeout_s: Timeout = DEFAULT_TIMEOUT_S

    def as_single(self) -> ScoreRequest:
        """A score request with the fields that all comparisons share."""
        turns = [f"{turn.role}: {turn.shown}" for turn in self.messages or ()]
        return ScoreRequest.model_construct(
            response="".join(self.responses),
            question=self.question or "\n\n".join(turns) or None,
            reference=self.reference or None,
            group=self.group,
            metadata=self.metadata,
            timeout_s=self.timeout_s,
        )


class GroupComparison(ResultModel):
    """The comparison of two responses in both orders."""

    a: int = Field(description="0-based index in responses.")
    b: int
    probability: float | None = Field(
        None, description="That a is better: (forward + 1 - backward) / 2; null if an order failed."
    )
    forward: float | None = Field(None, description="That a is better, shown first.")
    backward: float | None = Field(None, description="That b is better, shown first.")
    reason: str | None = Field(
        None, description="Why there is no probability; or what the judge wrote, a shown first."
    )

    @property
    def orders_agree(self) -> bool | None:
        """Whether both orders prefer the same response; None if one failed."""
        if self.forward is None or self.backward is None:
            return None
        return (self.forward > 0.5) is not (self.backward > 0.5)


class GroupResult(ResultModel):
    """The result of a group: a ``ScoreResult`` for each response, and the comparisons."""

    id: str | None = None
    status: Status = Field(description="ok if any response has a score.")
    reason: str | None = None
    results: list[ScoreResult] = Field(
        description="In the order of responses; empty if the request is invalid."
    )
    comparisons: list[GroupComparison] = Field([])
    details: dict[str, JsonValue] | None = Field(
        None,
        description="strategy, calls, and order_agreement: the share of pairs of which "
        "both orders prefer the same response.",
    )
    latency_ms: float = 0.0
    metadata: dict[str, JsonValue] | None = None

    @classmethod
    def of(cls, results: list[ScoreResult], **fields: Any) -> Self:
        """A result that is ``ok`` if any response has a score; else the first one's failure."""
        failed = None if any(result.score is not None for result in results) else results[0]
        status = Status.OK if failed is None else failed.status
        return cls(status=status, reason=failed and failed.reason, results=results, **fields)


def group_failure(failed: ScoreResult, size: int, **fields: Any) -> GroupResult:
    """The result of a group of ``size`` responses, 0 if unknown, that failed as a whole."""
    results = [failed.model_copy() for _ in range(size)]
    fields = {"details": failed.details, **fields}
    return GroupResult(status=failed.status, reason=failed.reason, results=results, **fields)


def size_of_group(request: object) -> int:
    """The number of responses of a possibly invalid request; 0 if it is unknown."""
    responses = request.get("responses") if isinstance(request, Mapping) else None
    return min(len(responses), MAX_RESPONSES) if isinstance(responses, list | tuple) else 0
