"""A stand-in for OpenAI's API: what it refuses of which model, and its limits of a minute.

As published: the refusals are those that users of the API quote; ``max_tokens`` counts against the
tokens of a minute, not the reply ("the maximum of max_tokens and the estimated number of tokens",
guide to rate limits); requests that fail count too; both limits refill continuously.
"""

import asyncio
import json
import math
import re
import time
from random import Random
from typing import Any

import httpx

_REASONING = re.compile(r"(gpt-5|o[134])(?!.*chat)")
_BOTH = {"model", "messages", "max_completion_tokens", "seed", "n", "stop", "tools", "user"}
_PLAIN = {"max_tokens", "temperature", "top_p", "logprobs", "top_logprobs"}
_EFFORTS = {"gpt-5.": ("none", "low", "medium", "high"), "gpt-5-pro": ("high",)}


def _refusal(body: dict[str, Any]) -> tuple[int, str, str | None] | None:
    model = body["model"]
    if _REASONING.match(model):
        if "max_tokens" in body:
            instead = "Use 'max_completion_tokens' instead."
            return 400, f"{_unsupported('max_tokens')} {instead}", "max_tokens"
        if body.get("temperature", 1) != 1:
            why = f"does not support {body['temperature']} with this model."
            only = "Only the default (1) value is supported."
            return 400, f"Unsupported value: 'temperature' {why} {only}", "temperature"
        if body.get("logprobs"):
            return 403, "You are not allowed to request logprobs from this model", None
        if "top_p" in body:
            return 400, _unsupported("top_p"), "top_p"
        efforts = next(
            (efforts for name, efforts in _EFFORTS.items() if model.startswith(name)),
            ("minimal", "low", "medium", "high"),
        )
        if body.get("reasoning_effort", efforts[-1]) not in efforts:
            why = f"'{body['reasoning_effort']}' is not supported with the '{model}' model."
            return 400, f"Unsupported value: {why}", "reasoning_effort"
        unknown = body.keys() - _BOTH - {"reasoning_effort", "temperature"}
    else:
        if not 0 <= body.get("top_logprobs", 0) <= 20 or (
            "top_logprobs" in body and not body.get("logprobs")
        ):
            return 400, "Invalid value for 'top_logprobs'.", "top_logprobs"
        if (most := body.get("max_tokens", 0)) > 16384:
            why = f"is too large: {most}. This model supports at most 16384 completion tokens"
            return 400, f"max_tokens {why}", "max_tokens"
        unknown = body.keys() - _BOTH - _PLAIN
    if unknown:
        return 400, f"Unrecognized request argument supplied: {min(unknown)}", None
    return None


def _unsupported(name: str) -> str:
    return f"Unsupported parameter: '{name}' is not supported with this model."


class _Bucket:
    def __init__(self, per_minute: int) -> None:
        self.per_minute, self._level, self._at = per_minute, float(per_minute), time.monotonic()

    def wait_s(self, amount: float) -> float:
        """Seconds until so much is left; 0 takes it."""
        now = time.monotonic()
        refilled = self._level + (now - self._at) * self.per_minute / 60
        self._level, self._at = min(self.per_minute, refilled), now
        if amount > self._level:
            return (amount - self._level) * 60 / self.per_minute
        self._level -= amount
        return 0.0


class OpenAIStandIn:
    """Answers an ``httpx.MockTransport``; every verdict is 1.

    Args:
        per_minute: requests and tokens; by default without limits.
        reply_tokens: median length of a written reply, of which one in a hundred is five times.
        reply_s: how long it takes.
    """

    def __init__(
        self,
        per_minute: tuple[int, int] = (10**9, 10**12),
        reply_tokens: int = 100,
        reply_s: float = 2.0,
    ) -> None:
        self._requests, self._tokens = map(_Bucket, per_minute)
        self._reply_tokens, self._reply_s = reply_tokens, reply_s
        self._random = Random(0)
        self.asked: list[dict[str, Any]] = []
        self.refused = list[str]()
        self.answered_at = list[float]()

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """The reply, a refusal or 429."""
        body = json.loads(request.content)
        self.asked.append(body)
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 16384
        characters = sum(len(turn["content"]) for turn in body["messages"])
        for what, bucket, amount in (
            ("requests", self._requests, 1),
            ("tokens", self._tokens, max(limit, characters / 4)),
        ):
            if wait_s := bucket.wait_s(amount):
                error = {"message": f"Rate limit reached for {what} per min", "type": what}
                pause = {"retry-after": f"{math.ceil(wait_s)}"}
                return self._refuse(429, {**error, "code": "rate_limit_exceeded"}, pause)
        if refused := self.refusal(body):
            status, message, param = refused
            return self._refuse(status, {"message": message, "param": param, "code": None})
        await asyncio.sleep(self._reply_s)
        self.answered_at.append(time.monotonic())
        return httpx.Response(200, json=self._reply(body, limit, characters))

    def refusal(self, body: dict[str, Any]) -> tuple[int, str, str | None] | None:
        """Status, message and ``param`` with which it refuses a request; None if it takes it."""
        return _refusal(body)

    def _refuse(
        self, status: int, error: dict[str, Any], headers: dict[str, str] | None = None
    ) -> httpx.Response:
        self.refused.append(error["message"])
        whole = {"type": "invalid_request_error", **error}
        return httpx.Response(status, json={"error": whole}, headers=headers)

    def _reply(self, body: dict[str, Any], limit: int, characters: int) -> dict[str, Any]:
        graded = "GRADE" in json.dumps(body["messages"])
        label = "2" if graded or "Reply 2" in json.dumps(body["messages"]) else "1"
        written, given = 1, None
        if body.get("logprobs"):
            top = [{"token": t, "logprob": p} for t, p in ((label, -0.01), ("0", -5.0))]
            given = {"content": [{**top[0], "top_logprobs": top}]}
        else:
            times = self._random.lognormvariate(0, 0.7)  # 5.1 at the 99th percentile
            written = max(8, round(self._reply_tokens * times))
        text = label if given else f"They agree.\n{'GRADE' if graded else 'VERDICT'}: {label}"
        ended = "stop" if written <= limit or given else "length"
        message = {"role": "assistant", "content": text if ended == "stop" else "They"}
        used = {"prompt_tokens": characters // 4, "completion_tokens": min(written, limit)}
        return {
            **{"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]},
            "choices": [
                {"index": 0, "message": message, "finish_reason": ended, "logprobs": given}
            ],
            "usage": {**used, "total_tokens": sum(used.values())},
        }
