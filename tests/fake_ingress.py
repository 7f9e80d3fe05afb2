"""The real ingress without Serve: only what stands in for the replicas' handles is fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, cast

from fastapi import FastAPI
from starlette.testclient import TestClient

from reward_serve.config.models import RuleModel
from reward_serve.http.ingress import Ingress
from reward_serve.keys import digest_of
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.reward_models.rule import RuleRewardModel
from tests.fake_service import judge_by_length

KEY = "trainer-key-0123456789"
OTHER_KEY = "another-key-0123456789"
KEYS = {"trainer": digest_of(KEY), "evaluator": digest_of(OTHER_KEY)}
BEARER = {"Authorization": f"Bearer {KEY}"}
OTHER_BEARER = {"Authorization": f"Bearer {OTHER_KEY}"}
GOOD = {"response": "#### 18", "reference": "18"}

Before = Callable[[], object]


class FakeCall:
    """A call under way."""

    def __init__(self, answer: Callable[[], Any], before: Before) -> None:
        self._answer = answer
        self._before = before

    def __await__(self) -> Generator[Any, None, Any]:
        return self._get().__await__()

    async def _get(self) -> Any:
        await asyncio.to_thread(self._before)
        return await self._answer()

    async def __aiter__(self) -> AsyncIterator[Any]:
        await asyncio.to_thread(self._before)
        async for part in self._answer():
            yield part

    def cancel(self) -> None: ...


class FakeHandle:
    """A handle to a replica of this process, which scores by the real rule or by ``model``."""

    def __init__(self, name: str, before: Before, model: RewardModel | None = None) -> None:
        self.app_name, self.deployment_name = "tests", name
        rule = RuleRewardModel(RuleModel(name=name, kind="rule"))
        rule.chat = echoing_chat
        rule.score_group, rule.group_wait = judge_by_length, 0.5
        scorer = Scorer(name, model or rule, Admission(64, 4096))
        self.score_batch = FakeMethod(scorer.score_batch, before)
        self.score_stream = FakeMethod(scorer.score_stream, before)
        self.score_group = FakeMethod(scorer.score_group, before)
        self.explain = FakeMethod(scorer.explain, before)
        self.complete = FakeMethod(scorer.complete, before)
        self.logprobs = FakeMethod(scorer.logprobs, before)
        self.describe = FakeMethod(self._describe, before)

    def options(self, **_: Any) -> FakeHandle:
        return self

    async def _describe(self) -> Any:
        return {"name": self.deployment_name}


async def echoing_chat(request: ChatRequest) -> dict[str, Any]:
    """Writes the last value that it was given."""
    message = {"role": "assistant", "content": request.messages[-1].text}
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }


class FakeMethod:
    def __init__(self, method: Callable[..., Any], before: Before) -> None:
        self._method = method
        self._before = before

    def remote(self, *arguments: Any) -> FakeCall:
        return FakeCall(lambda: self._method(*arguments), self._before)


def application(handle: Any, keys: dict[str, str] | None = None, **server: Any) -> FastAPI:
    """The application that Serve would run."""
    ingress = cast("type[Ingress]", Ingress.__mro__[1])  # as it stands before Serve wraps it
    return ingress(server, {"rule": handle}, keys or {}).__serve_build_asgi_app__()


def served(
    keys: dict[str, str] | None = None,
    before: Before = lambda: None,
    model: RewardModel | None = None,
    **server: Any,
) -> TestClient:
    """A client of the application.

    Args:
        keys: the digests of the API keys.
        before: called as each replica begins to answer.
        model: of the only replica; default: a rule.
        **server: of ``ServerConfig``.
    """
    if keys:
        server["api_keys_env"] = "READ_ALREADY"
    api = application(FakeHandle("rule", before, model), keys, **server)
    return TestClient(api, raise_server_exceptions=False)
