from __future__ import annotations

import itertools
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from loadtests.chaos.questions import Body, Questions, prose
from loadtests.chaos.standin import GENERATE, LABEL, NAME, Fault, Faults, StandIn, StandInReplica
from reward_serve.config.models import JudgeModel
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge

LABELS: Body = {"mode": "label"}
WRITES: Body = {"mode": "generate"}


async def ended(fault: Fault, options: Body, timeout_s: float = 5.0) -> tuple[Any, Any]:
    question = next(Questions(prose, "run", timeout_s, [options]))
    fields: dict[str, Any] = {"judge": {"rules_first": False}, "cache": {"enabled": False}}
    engine = StandIn(64, 0.0, Faults())
    judge = Judge(JudgeModel(name=NAME, kind="judge", **fields), engine)
    with patch.object(Faults, "draw", return_value=fault):
        result = await Scorer(NAME, judge, Admission(64, 4096)).score(question.body)
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


async def test_a_late_answer_is_right_and_one_that_never_comes_times_out() -> None:
    assert await ended("delay", LABELS) == ("ok", True)
    assert await ended("silent", WRITES, timeout_s=0.05) == ("timeout", None)


def test_faults_occur_at_their_rate_and_repeat_with_their_seed() -> None:
    for weights in (LABEL, GENERATE):
        once, again = Faults(0.2), Faults(0.2)
        found = [once.draw(weights) for _ in range(5000)]
        assert found == [again.draw(weights) for _ in range(5000)]
        counts = Counter(fault for fault in found if fault)
        assert 0.18 < sum(counts.values()) / 5000 < 0.22
        assert counts.keys() == weights.keys()
