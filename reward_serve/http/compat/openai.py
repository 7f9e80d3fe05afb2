"""OpenAI's ``/v1/chat/completions`` to the judge itself, for clients that bring their own prompt.

What would change an answer and is not understood is refused, and so are log-probabilities: one
request for the likeliest tokens overwrites the labels' of those it shares an engine step with.
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
    """A reply in OpenAI's form.

    Args:
        answer: of ``completions.Completer``, with status ``ok``.
        model: by the name that the client has for it.
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
    """An error in OpenAI's form, and in ours."""
    error = {"message": message, "type": kind, "param": None, "code": str(code)}
    return {"error": error, "detail": message}


def code_of(status: str) -> tuple[int, str]:
    """The HTTP status code and OpenAI's type of error of a failure."""
    return _CODES.get(Status(status), (500, "server_error"))


def listed(names: Iterable[str]) -> dict[str, Any]:
    """What ``GET /v1/models`` says in OpenAI's form, beside ours."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "reward_serve"} for name in names
    ]
    return {"object": "list", "data": data}
