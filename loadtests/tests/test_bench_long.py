from __future__ import annotations

from random import Random

from loadtests.bench.long import absent_or_wrong, rollouts
from loadtests.load.long_rows import LONGEST_CHARS, MEDIAN_CHARS
from reward_serve.schema import ScoreResult, Status
from reward_serve_answers import verify_any


def test_rollouts_are_long_and_decided_by_rules() -> None:
    asked = rollouts(Random(0))
    sizes = sorted(len(one["response"]) for one in asked)
    assert len(asked) == 1024
    assert 0.8 * MEDIAN_CHARS < sizes[512] < 1.2 * MEDIAN_CHARS
    assert LONGEST_CHARS - 100 < sizes[-1] <= LONGEST_CHARS
    for one in asked[:20]:
        outcome = verify_any(one["response"], [one["reference"]]).outcome
        assert (outcome == "right") is one["metadata"]["right"]
        assert outcome != "abstain"
    assert rollouts(Random(0)) == asked


def test_absent_and_wrong_results_are_counted() -> None:
    asked = [{"metadata": {"right": True}}] * 3
    results = [
        ScoreResult(status=Status.OK, score=1.0),
        ScoreResult(status=Status.OK, score=0.0),
        ScoreResult(status=Status.ERROR, reason="gone"),
    ]
    assert absent_or_wrong(asked, results) == {"absent": 1, "wrong": 1}
