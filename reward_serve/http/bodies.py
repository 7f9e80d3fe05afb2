"""The types of the HTTP paths' bodies, from which clients are generated.

The handlers parse and write bodies themselves; these types only document them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from reward_serve.explanation import Explanation
from reward_serve.groups.schema import GroupResult
from reward_serve.schema import ResultModel, ScoreRequest, ScoreResult


class Problem(ResultModel):
    """Why a request was refused, and the remedy."""

    detail: str


class Fault(Problem):
    """An internal error; the service's log has the ``request_id``."""

    request_id: str


class FailedScore(ScoreResult):
    """A result without a score."""

    detail: str


class FailedGroup(GroupResult):
    """A group of which no response has a score."""

    detail: str


class FailedExplanation(Explanation):
    """The explanation of a result without a score."""

    detail: str


class ScoreBatch(BaseModel):
    """Requests that are scored independently."""

    requests: list[ScoreRequest] = Field(
        description="At most server.max_batch_items. An invalid request gets the status invalid; "
        "the rest of the batch is scored."
    )


class ScoreResults(ResultModel):
    """The results of a batch."""

    results: list[ScoreResult] = Field(description="A result for each request, in order.")


class StreamedScore(ScoreResult):
    """One line of a streamed batch."""

    index: int = Field(ge=0, description="The request's 0-based index in the batch.")


class Model(BaseModel):
    """A replica's description of its reward model; further fields depend on the kind."""

    model_config = ConfigDict(extra="allow")

    name: str
    ready: bool = Field(description="Whether a replica can score.")
    kind: str | None = None
    fingerprint: str | None = None
    engine: dict[str, Any] | None = Field(
        None, description="Weights, revision, dtype, device, engine."
    )
    templates: list[str] | None = None
    items: int | None = Field(None, description="Items in progress or waiting.")


class Models(BaseModel):
    """The reward models; with ``openai`` in ``compatible_with``, in OpenAI's format too."""

    model_config = ConfigDict(extra="allow")

    models: list[Model]
    version: str


class Health(ResultModel):
    """The state of the process or of its reward models."""

    status: str


class Waiting(Health):
    """The reward models without a replica that can score."""

    detail: str


Label = str | float | list[str | float] | None
"""A reference, several, or none."""


class OpenRlhfRequest(BaseModel):
    """A batch in OpenRLHF's format."""

    query: list[str] = Field(description="The prompts with their responses.")
    prompts: list[str]
    labels: list[Label] | None = None


class Absent(ResultModel):
    """1.0 for each item without a score."""

    absent: list[float]


class OpenRlhfRewards(ResultModel):
    """The scores of a batch, in order."""

    rewards: list[float]
    scores: list[float]
    extra_logs: Absent


class SlimeRequest(BaseModel):
    """A sample in slime's format."""

    response: str
    prompt: Any = Field(None, description="The question, or a conversation as messages.")
    label: Label = None


class CompletionMessage(ResultModel):
    """The model's turn."""

    role: Literal["assistant"]
    content: str


class Choice(ResultModel):
    """One of a request's completions."""

    index: int
    message: CompletionMessage
    logprobs: None
    finish_reason: Literal["stop", "length"]


class ChatCompletion(BaseModel):
    """Completions in OpenAI's format."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: dict[str, Any]


class OpenAIErrorFields(ResultModel):
    """The fields of an error that OpenAI's clients read."""

    message: str
    type: str
    param: None
    code: str


class OpenAIError(Problem):
    """An error in OpenAI's format, with this service's ``detail``."""

    error: OpenAIErrorFields
