import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.engines.base import EngineError, OverloadedError, RefusedError
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import CANCELLED, Observer, Times
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.chat import ChatRequest
from reward_serve.reward_models.rule import RuleRewardModel
from tests.virtual_time import in_virtual_time, settle

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "9 + 9?"}]}


class FakeChat:
    def __init__(self, fault: Exception | None = None, seconds: float = 0.0) -> None:
        self._fault, self._seconds = fault, seconds

    async def __call__(self, request: ChatRequest) -> dict[str, Any]:
        await asyncio.sleep(self._seconds)
        if self._fault:
            raise self._fault
        return {"choices": [{"index": 0, "message": {"content": f"seed {request.seed}"}}]}


class Seen(Observer):
    def __init__(self) -> None:
        self.results: list[tuple[Any, Any, bool]] = []

    def observe(self, request: Any, result: Mapping[str, Any], times: Times) -> None:
        self.results.append((result["source"], result["status"], times.placed is not None))

    def flush(self) -> None:
        return


def completer(chat: Any, admission: Admission | None = None, seen: Seen | None = None) -> Scorer:
    model = RuleRewardModel(RuleModel(name="judge", kind="rule"))
    model.chat = chat
    observers = [seen] if seen else []
    return Scorer("judge", model, admission or Admission(1, 1), 200, observers)


TOO_LONG = {"messages": [{"role": "user", "content": "x" * 201}]}


@pytest.mark.parametrize(
    ("chat", "body", "status", "why"),
    [
        (None, BODY, "invalid", "'judge' does not generate text"),
        (FakeChat(), "x", "invalid", "object"),
        (FakeChat(), TOO_LONG, "invalid", "max_item_bytes"),
        (FakeChat(RefusedError("no such tool")), BODY, "invalid", "no such tool"),
        (FakeChat(OverloadedError("busy", 3.0)), BODY, "overloaded", "busy"),
        (FakeChat(EngineError("the engine core died")), BODY, "error", "the engine core died"),
        (FakeChat(KeyError("x")), BODY, "error", "KeyError"),
        (FakeChat(seconds=5), {**BODY, "timeout_s": 2}, "timeout", "timeout_s"),
    ],
)
@in_virtual_time
async def test_a_failure_is_typed_and_observed(chat: Any, body: Any, status: str, why: str) -> None:
    seen = Seen()
    answer = await completer(chat, seen=seen).complete(body)
    assert answer["status"] == status
    assert why in answer["reason"]
    assert "completion" not in answer
    placed = "FakeChat" in repr(chat) and body not in ("x", TOO_LONG)
    assert seen.results == [("chat", status, placed)]


async def test_it_takes_a_place_as_scores_do_until_its_caller_leaves() -> None:
    admission, seen = Admission(1, 0), Seen()
    judge = completer(FakeChat(seconds=60), admission, seen)
    first = asyncio.create_task(judge.complete(BODY))
    await settle()
    assert admission.items == 1
    answer = await judge.complete(BODY)
    assert (answer["status"], answer["details"]["retry_after_s"]) == ("overloaded", 1.0)
    first.cancel()
    await asyncio.wait([first])
    assert admission.items == 0
    assert [status for _, status, _ in seen.results] == ["overloaded", CANCELLED]
    answer = await completer(FakeChat(), admission, seen).complete(BODY)
    assert answer["completion"]["choices"][0]["message"]["content"] == "seed None"
    assert seen.results[-1] == ("chat", "ok", True)


@in_virtual_time
async def test_each_of_several_answers_takes_a_place_of_its_own() -> None:
    admission, began = Admission(2, 2), asyncio.get_running_loop().time()
    judge = completer(FakeChat(seconds=1), admission)
    call = asyncio.create_task(judge.complete({**BODY, "n": 4, "seed": 40}))
    await settle()
    assert admission.items == 4
    answer = await call
    assert asyncio.get_running_loop().time() - began == pytest.approx(2)  # two at a time
    texts = [choice["message"]["content"] for choice in answer["completion"]["choices"]]
    assert texts == ["seed 40", "seed 41", "seed 42", "seed 43"]
    answer = await judge.complete({**BODY, "n": 5})
    await settle()
    assert (answer["status"], admission.items) == ("overloaded", 0)
