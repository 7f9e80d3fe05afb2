"""OpenAI's ``/v1/chat/completions`` by a judge's model, for clients with their own prompts.

Unsupported fields that would change an answer are rejected. Log-probabilities are among them: a
request for top-k logprobs would overwrite the label logprobs of others in the same engine step.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

from reward_serve.schema import Status

_CODES = {
    Status.INVALID: (400, "invalid_request_error"),
    Status.OVERLOADED: (503, "overloaded_error"),
    Status.TIMEOUT: (504, "timeout_error"),
}


def completion(answer: dict[str, Any], model: str) -> dict[str, Any]:
    """A response in OpenAI's format.

    Args:
        answer: an answer of ``scoring.Scorer.complete`` with status ``ok``.
        model: the model's name in the request.
    """
    usage = answer["usage"]
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": choice["text"]},
                "logprobs": None,
                "finish_reason": "length" if choice["cut_off"] else "stop",
            }
            for index, choice in enumerate(answer["choices"])
        ],
        "usage": {
            "prompt_tokens": usage["prompt_tokens"],
            "completion_tokens": usage["completion_tokens"],
            "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"],
            "prompt_tokens_details": {"cached_tokens": usage["cached_tokens"]},
        },
    }


def problem(message: str, code: int, kind: str) -> dict[str, Any]:
    """An error in OpenAI's format, with this service's ``detail``."""
    error = {"message": message, "type": kind, "param": None, "code": str(code)}
    return {"error": error, "detail": message}


def code_of(status: str) -> tuple[int, str]:
    """The HTTP status code and OpenAI's error type for a failure's status."""
    return _CODES.get(Status(status), (500, "server_error"))


def listed(names: Iterable[str]) -> dict[str, Any]:
    """The models in OpenAI's format, for ``GET /v1/models``."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "reward_serve"} for name in names
    ]
    return {"object": "list", "data": data}
