import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import LabelOutput, Prompt
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from tests import virtual_time
from tests.unit.reward_models.test_group import by, higher
from tests.unit.reward_models.test_judge import FakeEngine

GROUP = ["bad 1", "good 3", "fair 2"]


class SlowEngine(FakeEngine):
    """Takes a second a call; counts those in progress."""

    busy = most = 0

    async def label_logprobs(self, prompt: Prompt, labels: Any) -> LabelOutput:
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await asyncio.sleep(1)
            return await super().label_logprobs(prompt, labels)
        finally:
            self.busy -= 1


def scorer(
    engine: FakeEngine, slots: int = 64, queued: int = 512, seen: Any = None, **model: Any
) -> Any:
    """A judge of groups; ``seen`` receives the requests and statuses that are observed."""
    config = {"name": "judge", "kind": "judge", "group": {"strategy": "all_pairs"}, **model}
    judge = Judge(JudgeModel.model_validate(config), engine)
    seen = [] if seen is None else seen
    observer: Any = SimpleNamespace(
        observe=lambda request, result, times: seen.append((request, result["status"]))
    )
    return Scorer("judge", judge, Admission(slots, queued), 1000, [observer])


async def scored(scorer: Any, **fields: Any) -> dict[str, Any]:
    asked = {"question": "Which?", "responses": GROUP, "id": "g", "metadata": {"n": 1}}
    reply: dict[str, Any] = await scorer.score_group({**asked, **fields})
    return reply


def scores(reply: dict[str, Any]) -> list[float | None]:
    return [result["score"] for result in reply["results"]]


async def test_a_group_has_a_result_for_each_response_and_each_is_observed() -> None:
    seen: list[Any] = []
    reply = await scored(scorer(FakeEngine(label=by(higher)), seen=seen), group="7")
    low, high, middle = scores(reply)
    assert low < middle < high  # type: ignore[operator]
    assert (reply["id"], reply["metadata"], reply["status"]) == ("g", {"n": 1}, "ok")
    assert {result["model"] for result in reply["results"]} == {"judge"}
    assert sum(result["usage"]["prompt_tokens"] > 0 for result in reply["results"]) == 3
    assert [(request.response, status) for request, status in seen] == [
        (response, "ok") for response in GROUP
    ]
    keys = [(request.group, request.metadata) for request, _ in seen]
    assert keys == [("7", {"n": 1, "sample": f"7-{place}"}) for place in range(len(GROUP))]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"responses": ["x"]}, "responses: List should have at least 2 items"),
        ({"responses": ["x" * 2000, "y"]}, "responses.0: has 2000 of the item's 2006 bytes"),
        ({"model": "other"}, "model: no model is named 'other' in this deployment; choose 'judge'"),
    ],
)
async def test_an_invalid_group_says_why(fields: dict[str, Any], reason: str) -> None:
    reply = await scored(scorer(FakeEngine()), **fields)
    assert reply["status"] == "invalid"
    assert reason in reply["reason"]
    assert all(result["score"] is None for result in reply["results"])


async def test_a_model_that_compares_nothing_or_a_member_without_a_group_says_so() -> None:
    reply = await scored(scorer(FakeEngine(), group=None))
    assert "'judge' compares no responses; choose a judge with a group section" in reply["reason"]
    assert [result["status"] for result in reply["results"]] == ["invalid"] * 3
    lone = {"response": "x", "question": "?", "group_size": 3}
    reply = await scorer(FakeEngine()).score(lone)
    assert reply["reason"] == "group_size: needs group, the prompt's key; send both"


@virtual_time.in_virtual_time
async def test_its_comparisons_take_places_as_items_do() -> None:
    engine = SlowEngine(label=by(higher))
    reply = await scored(scorer(engine, slots=2))
    assert engine.most == 2 and None not in scores(reply)
    assert reply["latency_ms"] == pytest.approx(3000)


@virtual_time.in_virtual_time
async def test_a_full_replica_rejects_comparisons_and_the_group_without_any() -> None:
    judge = scorer(SlowEngine(label=by(higher)), slots=1, queued=1)
    first, second, third = await asyncio.gather(*(scored(judge) for _ in range(3)))
    assert first["status"] == second["status"] == "ok"
    assert None not in scores(first) + scores(second)
    assert third["status"] == "overloaded" and scores(third) == [None] * 3


@virtual_time.in_virtual_time
async def test_requests_of_a_group_are_judged_together() -> None:
    seen: list[Any] = []
    judge = scorer(SlowEngine(label=by(higher)), seen=seen)
    asked = {"question": "Which?", "group": "g", "group_size": 3, "timeout_s": 30.0}
    results = await asyncio.gather(
        *(judge.score({**asked, "response": response, "id": response}) for response in GROUP)
    )
    low, high, middle = (result["score"] for result in results)
    assert low < middle < high
    assert [result["id"] for result in results] == GROUP
    assert sorted(request.response for request, _ in seen) == sorted(GROUP)
    lone = await judge.score({**asked, "response": "x", "group": "other"})
    assert (lone["status"], lone["latency_ms"]) == ("timeout", pytest.approx(15_000))
