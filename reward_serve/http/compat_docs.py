"""The OpenAPI documentation of the paths of ``server.compatible_with``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from reward_serve.http.bodies import Exact, Fault, Problem
from reward_serve.http.docs import (
    FAULT_OF_OURS,
    RETRY_AFTER,
    TOO_LARGE,
    Docs,
    Responses,
    request_body,
    response,
)
from reward_serve.reward_models.chat import ChatRequest

Label = str | float | list[str | float] | None
"""A reference, several, or none."""


class OpenRlhfRequest(BaseModel):
    """A batch in OpenRLHF's format."""

    query: list[str] = Field(description="The prompts with their responses.")
    prompts: list[str]
    labels: list[Label] | None = None


class Absent(Exact):
    """1.0 for each item without a score."""

    absent: list[float]


class OpenRlhfRewards(Exact):
    """The scores of a batch, in order."""

    rewards: list[float]
    scores: list[float]
    extra_logs: Absent


class SlimeRequest(BaseModel):
    """A sample in slime's format."""

    response: str
    prompt: Any = Field(None, description="The question, or a conversation as messages.")
    label: Label = None


class CompletionMessage(Exact):
    """The model's turn."""

    role: Literal["assistant"]
    content: str


class Choice(Exact):
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


class OpenAIErrorFields(Exact):
    """What OpenAI's clients read."""

    message: str
    type: str
    param: None
    code: str


class OpenAIError(Problem):
    """An error in OpenAI's format, with this service's ``detail``."""

    error: OpenAIErrorFields


_IN_URL: list[Docs] = [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": description}
    for name, schema, description in (
        ("model", {"type": "string"}, "Name of the reward model; default: the first."),
        (
            "template",
            {"type": "string"},
            "Name of the judging template; default: the deployment's.",
        ),
        (
            "timeout_s",
            {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
            "Deadline, in seconds.",
        ),
    )
]
_REFUSALS: Responses = {
    404: response("Unknown model", Problem),
    **TOO_LARGE,
    422: response("A field is invalid; detail names it and the remedy", Problem),
    **FAULT_OF_OURS,
    503: response("Items without a score, and absent_reward is not set", Problem, RETRY_AFTER),
}

GET_REWARD_DOCS: Docs = {
    "operation_id": "get_reward",
    "openapi_extra": {**request_body(OpenRlhfRequest), "parameters": _IN_URL},
    "responses": {200: response("The scores, in order", OpenRlhfRewards), **_REFUSALS},
}

REMOTE_RM_DOCS: Docs = {
    "operation_id": "remote_rm",
    "openapi_extra": {**request_body(SlimeRequest), "parameters": _IN_URL},
    "responses": {200: response("The score", float), **_REFUSALS},
}

CHAT_DOCS: Docs = {
    "operation_id": "chat_completions",
    "openapi_extra": request_body(ChatRequest),
    "responses": {
        200: response("The completion", ChatCompletion),
        400: response("A field is invalid or not supported", OpenAIError),
        404: response("Unknown model", OpenAIError),
        **TOO_LARGE,
        422: response("The body is not JSON", Problem),
        500: response("The engine or the service failed", OpenAIError | Fault),
        503: response("Overloaded: nothing was done", OpenAIError, RETRY_AFTER),
        504: response("The deadline passed", OpenAIError),
    },
}
