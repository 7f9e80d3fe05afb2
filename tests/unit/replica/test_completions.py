from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.engines.base import EngineError, TextOutput
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import Usage
from tests.virtual_time import in_virtual_time, settle

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "9 + 9?"}]}


class FakeChat:
    def __init__(self, fault: Exception | None = None, seconds: float = 0.0) -> None:
        self._fault, self._seconds = fault, seconds

    async def __call__(self, request: ChatRequest) -> list[TextOutput]:
        await asyncio.sleep(self._seconds)
        if self._fault:
            raise self._fault
        return [TextOutput("18", True, Usage(prompt_tokens=4, completion_tokens=1))] * 2


def completer(chat: Any, admission: Admission | None = None) -> Scorer:
    model = RuleRewardModel(RuleModel(name="judge", kind="rule"))
    model.chat = chat
    return Scorer("judge", model, admission or Admission(1, 1), max_item_bytes=100)


TOO_LONG = {"messages": [{"role": "user", "content": "x" * 101}]}


@pytest.mark.parametrize(
    ("chat", "body", "status", "why"),
    [
        (None, BODY, "invalid", "'judge' does not generate text"),
        (FakeChat(), "x", "invalid", "object"),
        (FakeChat(), TOO_LONG, "invalid", "max_item_bytes"),
        (FakeChat(EngineError("the engine core died")), BODY, "error", "the engine core died"),
        (FakeChat(KeyError("x")), BODY, "error", "KeyError"),
        (FakeChat(seconds=5), {**BODY, "timeout_s": 2}, "timeout", "timeout_s"),
    ],
)
@in_virtual_time
async def test_a_failure_is_typed(chat: Any, body: Any, status: str, why: str) -> None:
    answer = await completer(chat).complete(body)
    assert answer["status"] == status
    assert why in answer["reason"]
    assert "choices" not in answer


async def test_it_takes_a_place_as_scores_do_until_its_caller_leaves() -> None:
    admission = Admission(1, 0)
    judge = completer(FakeChat(seconds=60), admission)
    first = asyncio.create_task(judge.complete(BODY))
    await settle()
    assert admission.items == 1
    answer = await judge.complete(BODY)
    assert (answer["status"], answer["retry_after_s"]) == ("overloaded", 1.0)
    first.cancel()
    await asyncio.wait([first])
    assert admission.items == 0

    answer = await completer(FakeChat(), admission).complete(BODY)
    assert (answer["status"], answer["usage"]["prompt_tokens"]) == ("ok", 8)
    assert answer["choices"] == [{"text": "18", "cut_off": True}] * 2
