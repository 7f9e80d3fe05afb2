"""The routes of ``server.compatible_with``.

OpenAI's ``/v1/chat/completions`` is for clients with their own prompts. Unsupported fields that
would change an answer are rejected. Log-probabilities are among them: a request for top-k logprobs
would overwrite the label logprobs of others in the same engine step.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import HTTPException, Request, Response

from reward_serve.config.app import ServerConfig
from reward_serve.http import remote_rewards as rewards
from reward_serve.http.contract import read_json, reply, retry_after
from reward_serve.http.documented import (
    DocumentedApi,
    OpenRlhfRequest,
    SlimeRequest,
    reward_url,
)
from reward_serve.reward_models.chat import CHAT_TIMEOUT_S, ChatRequest
from reward_serve.routing.deployment_client import NoAnswerError
from reward_serve.routing.dispatch import Dispatcher, UnknownModelError
from reward_serve.schema import Status, longest_timeout_s

logger = logging.getLogger("ray.serve")

_OPENAI_CODES = {
    Status.INVALID: (400, "invalid_request_error"),
    Status.OVERLOADED: (503, "overloaded_error"),
    Status.TIMEOUT: (504, "timeout_error"),
}
"""The HTTP status code and OpenAI's error type for a failure's status."""


class CompatRoutes:
    """The handlers of the routes.

    Args:
        dispatcher: sends items to the reward models.
        server: limits, and ``absent_reward``.
        hold: counts items for the caller's key until the response is sent.
    """

    def __init__(
        self, dispatcher: Dispatcher, server: ServerConfig, hold: Callable[[Request, int], None]
    ) -> None:
        self._dispatcher = dispatcher
        self._server = server
        self._hold = hold

    def add_to(self, api: DocumentedApi) -> None:
        """Register the routes of the protocols that ``server.compatible_with`` lists."""
        if "openai" in self._server.compatible_with:
            api.add("/v1/chat/completions", self.chat_completions, dict[str, Any], ChatRequest)
        if "openrlhf" in self._server.compatible_with:
            api.add(
                "/get_reward",
                self.get_reward,
                dict[str, Any],
                OpenRlhfRequest,
                query=reward_url,
            )
        if "slime" in self._server.compatible_with:
            api.add("/remote_rm", self.remote_rm, float, SlimeRequest, query=reward_url)

    async def get_reward(self, request: Request) -> Response:
        """OpenRLHF's ``--remote_rm_url``: scores ``query``, ``prompts`` and ``labels``."""
        body = await read_json(request, self._server.max_body_bytes)
        self._admit(request, len(rewards.openrlhf_queries(body)))
        numbers, results = await self._scored(request, rewards.openrlhf_items(body))
        return reply(rewards.openrlhf_reply(numbers, results))

    async def remote_rm(self, request: Request) -> Response:
        """Slime's ``--rm-url``: scores a sample's ``prompt``, ``response`` and ``label``."""
        body = await read_json(request, self._server.max_body_bytes, one_item=True)
        self._admit(request, 1)
        (number,), _ = await self._scored(request, rewards.slime_items(body))
        return reply(number)

    async def chat_completions(self, request: Request) -> Response:
        """OpenAI's chat completions, by a judge's model."""
        body = await read_json(request, self._server.max_body_bytes, one_item=True)
        if not isinstance(body, dict):
            return _problem("body: must be an object", 400, "invalid_request_error")
        try:
            model = await self._dispatcher.find(body.get("model"))
        except UnknownModelError as error:
            return _problem(str(error), 404, "invalid_request_error")
        answers = body.get("n")
        self._hold(request, answers if type(answers) is int and answers > 0 else 1)
        within_s = longest_timeout_s([body]) if "timeout_s" in body else CHAT_TIMEOUT_S
        try:
            answer = await self._dispatcher.complete(model, body, within_s)
        except NoAnswerError as error:
            logger.warning("reward model %s: a conversation unanswered: %r", model, error.__cause__)
            answer = {"status": error.status, "reason": error.reason, "retry_after_s": 0.0}
        if answer["status"] != "ok":
            code, kind = _OPENAI_CODES.get(Status(answer["status"]), (500, "server_error"))
            headers = retry_after(answer["retry_after_s"]) if code == 503 else {}
            return _problem(answer["reason"], code, kind, headers)
        return reply(_completion(answer, body.get("model") or model))

    def _admit(self, request: Request, items: int) -> None:
        limit = self._server.max_batch_items
        if items > limit:
            raise HTTPException(
                413,
                f"{items} items; the limit is server.max_batch_items: {limit}, so split the batch",
            )
        self._hold(request, items)

    async def _scored(
        self, request: Request, items: rewards.Items
    ) -> tuple[list[float], list[dict[str, Any]]]:
        """The rewards and their results."""
        query = request.query_params
        items = rewards.with_url_fields(query, items)
        await self._dispatcher.find(query.get("model"))
        results = await self._dispatcher.score_batch(items)
        absent = self._server.absent_reward
        return rewards.rewards_of(results, absent, query.get("template")), results


def openai_models(names: Iterable[str]) -> dict[str, Any]:
    """The models in OpenAI's format, for ``GET /v1/models``."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "reward_serve"} for name in names
    ]
    return {"object": "list", "data": data}


def _completion(answer: dict[str, Any], model: str) -> dict[str, Any]:
    """A response in OpenAI's format.

    Args:
        answer: an answer of ``Scorer.complete`` with status ``ok``.
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


def _problem(message: str, code: int, kind: str, headers: dict[str, str] | None = None) -> Response:
    """An error in OpenAI's format, with this service's ``detail``."""
    error = {"message": message, "type": kind, "param": None, "code": str(code)}
    return reply({"error": error, "detail": message}, code, headers)
