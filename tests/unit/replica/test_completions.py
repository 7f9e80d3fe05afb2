from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.engines.base import EngineError, TextOutput
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import Usage

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "9 + 9?"}]}


class FakeChat:
    def __init__(self, fault: Exception | None = None, seconds: float = 0.0) -> None:
        self._fault, self._seconds = fault, seconds
        self.cancelled = False

    async def __call__(self, request: ChatRequest) -> list[TextOutput]:
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._fault:
            raise self._fault
        return [TextOutput("18", True, Usage(prompt_tokens=4, completion_tokens=1))] * 2


def completer(chat: Any, admission: Admission | None = None) -> Scorer:
    model = RuleRewardModel(RuleModel(name="judge", kind="rule"))
    model.chat = chat
    return Scorer("judge", model, admission or Admission(1, 1), 1, max_item_bytes=100)


async def test_every_answer_and_all_tokens_are_reported() -> None:
    answer = await completer(FakeChat()).complete(BODY)
    assert answer["status"] == "ok"
    assert answer["choices"] == [{"text": "18", "cut_off": True}] * 2
    assert answer["usage"]["prompt_tokens"] == 8


@pytest.mark.parametrize(
    ("chat", "body", "status", "why"),
    [
        (None, BODY, "invalid", "'judge' does not generate text"),
        (FakeChat(), {"messages": []}, "invalid", "messages"),
        (FakeChat(), "x", "invalid", "object"),
        (
            FakeChat(),
            {"messages": [{"role": "user", "content": "x" * 101}]},
            "invalid",
            "max_item_bytes",
        ),
        (FakeChat(EngineError("the engine core died")), BODY, "error", "the engine core died"),
        (FakeChat(KeyError("x")), BODY, "error", "KeyError"),
        (FakeChat(seconds=5), {**BODY, "timeout_s": 0.01}, "timeout", "timeout_s"),
    ],
)
async def test_a_failure_is_typed(
    chat: Any, body: Any, status: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL):
        answer = await completer(chat).complete(body)
    assert answer["status"] == status
    assert why in answer["reason"]
    assert "choices" not in answer


async def test_it_waits_for_the_same_places_as_scores_do() -> None:
    admission = Admission(1, 0)
    judge = completer(FakeChat(seconds=1), admission)
    first = asyncio.create_task(judge.complete(BODY))
    await asyncio.sleep(0.01)
    assert admission.items == 1
    answer = await judge.complete(BODY)
    assert (answer["status"], answer["retry_after_s"]) == ("overloaded", 1.0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert admission.items == 0


async def test_a_caller_who_leaves_ends_the_work() -> None:
    chat = FakeChat(seconds=60)
    task = asyncio.create_task(completer(chat).complete(BODY))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert chat.cancelled
