from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any

import pytest

from loadtests.chaos.engine_faults import GENERATE, LABEL, Fault, Faults
from loadtests.chaos.questions import Body, Questions, prose
from loadtests.chaos.standin import NAME, StandIn, StandInReplica
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import Prompt
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge

LABELS: Body = {"mode": "label"}
WRITES: Body = {"mode": "generate"}


class Always(Faults):
    """One fault at every call."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__()
        self._fault = fault

    def draw(self, weights: dict[Fault, float]) -> Fault | None:
        return self._fault


def scorer(faults: Faults, slots: int = 64, service_s: float = 0.0) -> Scorer:
    fields: dict[str, Any] = {"judge": {"rules_first": False}, "cache": {"enabled": False}}
    judge = Judge(JudgeModel(name=NAME, kind="judge", **fields), StandIn(slots, service_s, faults))
    return Scorer(NAME, judge, Admission(64, 4096))


async def ended(fault: Fault | None, options: Body, timeout_s: float = 5.0) -> tuple[Any, Any]:
    question = next(Questions(prose, "run", timeout_s, [options]))
    result = await scorer(Always(fault)).score(question.body)
    score = result["score"]
    return result["status"], None if score is None else score == question.right


@pytest.mark.parametrize("options", [LABELS, WRITES])
async def test_without_faults_every_answer_is_right(options: Body) -> None:
    replica = StandInReplica(slots=32, service_s=0.0)
    questions = list(itertools.islice(Questions(prose, "run", 5.0, [options]), 100))
    results = await replica.score_batch([question.body for question in questions])
    assert [r["score"] for r in results] == [question.right for question in questions]


@pytest.mark.parametrize(
    ("fault", "options", "status"),
    [
        ("exception", LABELS, "error"),
        ("bug", LABELS, "error"),
        ("cancelled", LABELS, "error"),
        ("nan", LABELS, "error"),
        ("exception", WRITES, "error"),
        ("garbage", WRITES, "unparseable"),
        ("planted", WRITES, "unparseable"),
        ("truncated", WRITES, "truncated"),
    ],
)
async def test_a_fault_gives_a_typed_status_and_never_a_score(
    fault: Fault, options: Body, status: str
) -> None:
    assert await ended(fault, options) == (status, None)


@pytest.mark.parametrize("options", [LABELS, WRITES])
async def test_a_call_that_is_never_answered_times_out(options: Body) -> None:
    assert await ended("silent", options, timeout_s=0.05) == ("timeout", None)


async def test_a_delayed_answer_is_right() -> None:
    assert await ended("delay", LABELS) == ("ok", True)


def test_faults_occur_at_their_rate_and_repeat_with_their_seed() -> None:
    def drawn(weights: dict[Fault, float]) -> list[Fault | None]:
        faults = Faults(0.2, seed=3)
        return [faults.draw(weights) for _ in range(5000)]

    for weights in (LABEL, GENERATE):
        found = drawn(weights)
        assert found == drawn(weights)
        counts = Counter(fault for fault in found if fault)
        assert 0.18 < sum(counts.values()) / 5000 < 0.22
        assert counts.keys() == weights.keys()


async def test_capacity_is_slots_over_service_time() -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        mine = now + seconds
        await asyncio.sleep(0)
        now = max(now, mine)

    engine = StandIn(slots=4, service_s=0.5, faults=Faults(), sleep=sleep)
    prompt = Prompt([{"role": "user", "content": "It comes to 5 in all\nReference: 5"}])
    await asyncio.gather(*(engine.label_logprobs(prompt, ["0", "1"]) for _ in range(40)))
    assert now == pytest.approx(40 / (4 / 0.5))
