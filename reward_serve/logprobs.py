"""The wire contract of a teacher: the log-probability of each token of a sequence.

    >>> places_of(tokens=32_768, scored=2_048, top_k=0)
    64

On-policy distillation asks a frozen teacher how probable each token of the student's response is
(Agarwal et al., 2024, arXiv:2306.13649).
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from reward_serve.messages import Message, Name
from reward_serve.schema import (
    DEFAULT_TIMEOUT_S,
    MAX_MESSAGES,
    Metadata,
    ResultModel,
    Status,
    Timeout,
    Usage,
)

MAX_TOP_K = 256
MAX_RESULT_BYTES = 2**26
_TOKENS, _BYTES = 512, 2**16  # of a place
_VALUE = 4  # bytes of a float32 or an int32

TokenId = Annotated[int, Field(strict=True, ge=0, lt=2**31)]


class LogprobsRequest(BaseModel, extra="forbid"):
    """A request for the log-probability of each token of a sequence from ``start`` on."""

    token_ids: list[TokenId] | None = Field(
        None, min_length=2, description="The whole sequence, prompt and response."
    )
    messages: list[Message] | None = Field(
        None,
        min_length=1,
        max_length=MAX_MESSAGES,
        description="Instead of token_ids: the prompt, shown by the teacher's own chat template.",
    )
    response_token_ids: list[TokenId] | None = Field(
        None, min_length=1, description="With messages: the response, all of which is scored."
    )
    start: int | None = Field(
        None,
        strict=True,
        ge=1,
        description="Index of the first scored token; default 1, as nothing is before the first.",
    )
    top_k: int = Field(
        0, strict=True, ge=0, le=MAX_TOP_K, description="Likeliest tokens to return at each place."
    )
    encoding_format: Literal["float", "base64"] = Field(
        "float",
        description="Of arrays over HTTP: lists, or base64 of little-endian float32 and int32.",
    )
    model: Name | None = None
    group: Name | None = Field(
        None, description="Key of the prompt: a group's requests go to one replica."
    )
    id: Name | None = None
    metadata: Metadata | None = None
    timeout_s: Timeout = DEFAULT_TIMEOUT_S

    @model_validator(mode="after")
    def _has_one_sequence(self) -> Self:
        as_turns = self.messages is not None and self.response_token_ids is not None
        if as_turns is (self.token_ids is not None) or (self.token_ids and self.response_token_ids):
            raise ValueError("token_ids: send it, or messages with response_token_ids")
        if as_turns and self.start is not None:
            raise ValueError("start: is the response's first token with messages; remove it")
        if self.token_ids and (self.start or 1) >= len(self.token_ids):
            raise ValueError(
                f"start: {self.start} is not the index of one of {len(self.token_ids)} token_ids"
            )
        return self


def places_of(tokens: int, scored: int, top_k: int) -> int:
    """The places of a sequence in a replica: one for 512 tokens, or for 64 KiB of result."""
    return max(-(-tokens // _TOKENS), result_bytes(scored, top_k) // _BYTES, 1)


def places_asked(body: object) -> int:
    """The places of a possibly invalid request of any kind, by which callers balance replicas."""
    ids = body.get("token_ids") if isinstance(body, Mapping) else None
    return places_of(len(ids), 0, 0) if isinstance(ids, list) else 1


def result_bytes(scored: int, top_k: int) -> int:
    """The bytes of a result's arrays."""
    return _VALUE * scored * (1 + 2 * top_k)


def _read(dtype: str) -> BeforeValidator:
    def array(value: Any) -> Any:
        if value is None:
            return None
        import numpy as np

        if isinstance(value, str):
            value = b64decode(value, validate=True)
        if isinstance(value, bytes):
            return np.frombuffer(value, dtype).copy()  # writable, as torch asks
        return np.asarray(value, dtype)

    return BeforeValidator(array)


def _schema(element: str) -> WithJsonSchema:
    lists = {"type": "array", "items": {"type": element}}
    return WithJsonSchema({"anyOf": [lists, {"type": "string"}, {"type": "null"}]})


Floats = Annotated[Any, _read("<f4"), _schema("number")]
Ids = Annotated[Any, _read("<i4"), _schema("integer")]


class LogprobsResult(ResultModel):
    """The log-probabilities of a sequence's tokens from ``start`` on, as numpy arrays.

    A failure has a ``status`` that is not ``ok``, and no array, never a part of one.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    id: str | None = None
    status: Status
    reason: str | None = Field(None, description="Why there are none, and the remedy.")
    start: int = Field(0, description="Index of the first scored token.")
    logprobs: Floats = Field(None, description="float32, (tokens,): of each scored token.")
    top_k: int = 0
    top_ids: Ids = Field(None, description="int32, (tokens, top_k): the likeliest, best first.")
    top_logprobs: Floats = Field(None, description="float32, (tokens, top_k): theirs.")
    model: str | None = None
    fingerprint: str | None = Field(None, description="Weights, dtype, device and engine version.")
    details: dict[str, Any] | None = None
    usage: Usage = Field(default_factory=Usage)
    latency_ms: float = Field(0.0, description="Time in the replica, queueing included.")
    metadata: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _arrays_match_status(self) -> Self:
        if (self.logprobs is None) is (self.status is Status.OK):
            raise ValueError(f"logprobs: do not fit status={self.status.value!r}")
        for name in ("top_ids", "top_logprobs"):
            if (array := getattr(self, name)) is not None:
                setattr(self, name, array.reshape(len(self.logprobs), self.top_k))
        return self

    def plain(self) -> dict[str, Any]:
        """The result with the arrays as bytes, little-endian, as handles carry it."""
        fields = self.model_dump(mode="json", exclude=set(_ARRAYS))
        arrays = ((name, getattr(self, name)) for name in _ARRAYS)
        return fields | {name: a if a is None else a.tobytes() for name, a in arrays}


_ARRAYS = ("logprobs", "top_ids", "top_logprobs")


def as_json_values(result: Mapping[str, Any], encoding: object) -> dict[str, Any]:
    """A plain result as JSON can carry it, in base64 or as lists."""
    if encoding == "base64":
        arrays = {k: result[k] and b64encode(result[k]).decode() for k in _ARRAYS}
    else:
        whole = LogprobsResult.model_validate(result)
        arrays = {k: a if (a := getattr(whole, k)) is None else a.tolist() for k in _ARRAYS}
    return {**result, **arrays}
