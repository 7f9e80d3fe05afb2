from __future__ import annotations

import pytest

from reward_serve.schema import (
    GroupComparison,
    GroupResult,
    ScoreResult,
    Status,
    failure,
    group_failure,
)
from reward_serve_lab.evaluation.pairs import Pair, report_of_pairs


def compared(forward: float, backward: float, *scores: float) -> GroupResult:
    p = (forward + 1 - backward) / 2
    both = scores or (p, 1 - p)
    return GroupResult.of(
        [ScoreResult(status=Status.OK, score=score) for score in both],
        comparisons=[GroupComparison(a=0, b=1, forward=forward, backward=backward, probability=p)],
    )


def test_a_tie_and_an_unscored_pair_are_not_right_and_a_flip_is_no_agreement() -> None:
    judged = [
        (0, compared(0.9, 0.2)),  # right
        (1, compared(0.3, 0.9)),  # right
        (1, compared(0.9, 0.1)),  # wrong
        (0, compared(0.9, 0.8)),  # right on the whole, though the orders disagree
        (1, compared(0.7, 0.7)),  # a judge that prefers the first place
        (0, group_failure(failure(Status.ERROR, "the engine is gone"), 2)),
    ]
    pairs = [Pair({}, preferred) for preferred, _ in judged]
    report = report_of_pairs(pairs, [result for _, result in judged])
    low, high = report["accuracy_interval"]
    assert (report["n"], report["accuracy"], report["ties"], report["unscored"]) == (6, 0.5, 1, 1)
    assert low < 0.5 < high
    assert (report["flips"], report["order_agreement"]) == (2, pytest.approx(3 / 5))
    assert report["statuses"] == {"ok": 5, "error": 1}
    assert report["reasons"] == {"error": "the engine is gone"}
