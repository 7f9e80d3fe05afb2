"""The OpenAPI documentation of the paths of ``server.compatible_with``."""

from __future__ import annotations

from typing import Any

from reward_serve.http.docs import (
    DETAIL,
    FAULT_OF_OURS,
    RETRY_AFTER,
    TEXT,
    TOO_LARGE,
    Docs,
    Schema,
    exact_object,
    inline,
    request_body,
    response,
)
from reward_serve.reward_models.chat import UNSUPPORTED, ChatRequest

_NUMBER: Schema = {"type": "number"}
_NUMBERS: Schema = {"type": "array", "items": _NUMBER}
_TEXTS: Schema = {"type": "array", "items": TEXT}
_LABEL: Schema = {
    "anyOf": [
        TEXT,
        _NUMBER,
        {"type": "null"},
        {"type": "array", "items": {"anyOf": [TEXT, _NUMBER]}},
    ]
}
_IN_URL: list[Schema] = [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": description}
    for name, schema, description in (
        ("model", TEXT, "Name of the reward model; default: the first."),
        ("template", TEXT, "Name of the judging template; default: the deployment's."),
        ("timeout_s", {**_NUMBER, "exclusiveMinimum": 0, "maximum": 3600}, "Deadline, in seconds."),
    )
]
_REFUSALS: dict[int | str, Any] = {
    404: response("Unknown model", DETAIL),
    **TOO_LARGE,
    422: response("A field is invalid; detail names it and the remedy", DETAIL),
    **FAULT_OF_OURS,
    503: response("Items without a score, and absent_reward is not set", DETAIL, RETRY_AFTER),
}


def _asked(schema: Schema, required: list[str]) -> Docs:
    body = {"type": "object", "properties": schema, "required": required}
    return {**request_body(body), "parameters": _IN_URL}


GET_REWARD_DOCS: Docs = {
    "operation_id": "get_reward",
    "openapi_extra": _asked(
        {"query": _TEXTS, "prompts": _TEXTS, "labels": {"type": "array", "items": _LABEL}},
        ["query", "prompts"],
    ),
    "responses": {
        200: response(
            "The scores, in order",
            exact_object(
                {
                    "rewards": _NUMBERS,
                    "scores": _NUMBERS,
                    "extra_logs": exact_object({"absent": _NUMBERS}),
                }
            ),
        ),
        **_REFUSALS,
    },
}

REMOTE_RM_DOCS: Docs = {
    "operation_id": "remote_rm",
    "openapi_extra": _asked({"prompt": {}, "response": TEXT, "label": _LABEL}, ["response"]),
    "responses": {200: response("The score", _NUMBER), **_REFUSALS},
}

_ERROR: Schema = exact_object(
    {
        "error": exact_object(
            {"message": TEXT, "type": TEXT, "param": {"type": "null"}, "code": TEXT}
        ),
        "detail": TEXT,
    },
    title="OpenAIError",
)
_MESSAGE = exact_object({"role": TEXT, "content": TEXT})
_CHOICE: Schema = exact_object(
    {
        "index": {"type": "integer"},
        "message": _MESSAGE,
        "logprobs": {"type": "null"},
        "finish_reason": {"enum": ["stop", "length"]},
    }
)

_CHAT = inline(ChatRequest, "validation")
_CHAT["properties"] |= {
    name: {"enum": [None, *neutral], "description": f"Ignored at these values; {why}."}
    for name, (neutral, why) in UNSUPPORTED.items()
}

CHAT_DOCS: Docs = {
    "operation_id": "chat_completions",
    "openapi_extra": request_body(_CHAT),
    "responses": {
        200: response(
            "The completion",
            {
                "type": "object",
                "properties": {"choices": {"type": "array", "items": _CHOICE}},
                "required": ["id", "object", "created", "model", "choices", "usage"],
            },
        ),
        400: response("A field is invalid or not supported", _ERROR),
        404: response("Unknown model", _ERROR),
        **TOO_LARGE,
        422: response("The body is not JSON", DETAIL),
        500: response("The engine or the service failed", {"type": "object"}),
        503: response("Overloaded: nothing was done", _ERROR, RETRY_AFTER),
        504: response("The deadline passed", _ERROR),
    },
}
