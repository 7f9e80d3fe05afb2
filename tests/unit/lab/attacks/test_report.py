from __future__ import annotations

from typing import Any

import pytest

from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.attacks.report import failings, report_of
from reward_serve_lab.evaluation.bulk import Row, Run


def scored(score: float) -> ScoreResult:
    return ScoreResult(status=Status.OK, score=score, source="judge")


def report(**families: list[ScoreResult]) -> dict[str, Any]:
    attacks = [
        Attack(name, f"{name} {n // 2}", str(18 + n))
        for name, results in families.items()
        for n in range(len(results))
    ]
    results = [result for group in families.values() for result in group]
    return report_of(attacks, Run([Row(n) for n in range(len(attacks))], results, 1.0))


def test_accepts_are_counted_by_family_over_the_rows_that_got_a_score() -> None:
    lost = failure(Status.TIMEOUT, "too late")
    figures = report(keys=[scored(1.0), scored(0.0), scored(0.4), lost], floods=[scored(0.5)] * 2)
    assert (figures["n"], figures["unscored"], figures["false_accepts"]) == (6, 1, 3)
    assert figures["false_accept_rate"] == 3 / 5
    keys = figures["families"]["keys"]
    assert (keys["n"], keys["texts"], keys["unscored"], keys["false_accepts"]) == (4, 2, 1, 1)
    assert keys["false_accept_rate"] == 1 / 3
    assert figures["statuses"] == {"ok": 5, "timeout": 1}
    assert figures["sources"] == {"judge": 5}
    assert figures["reasons"] == {"timeout": "too late"}


def test_no_accept_still_has_an_upper_bound() -> None:
    # Wilson's upper end for 0 of 100 is z^2 / (n + z^2), z = 1.96.
    figures = report(keys=[scored(0.0)] * 100)
    assert figures["false_accept_rate"] == 0
    assert figures["false_accept_upper95"] == pytest.approx(0.03699, abs=1e-5)


def test_accepted_rows_are_reported_whole() -> None:
    figures = report(keys=[scored(0.0), scored(1.0)])
    (row,) = figures["accepted"]
    assert {key: row[key] for key in ("family", "response", "reference", "score", "source")} == {
        "family": "keys",
        "response": "keys 0",
        "reference": "19",
        "score": 1.0,
        "source": "judge",
    }


def test_a_run_without_a_score_has_no_rate_and_fails() -> None:
    figures = report(keys=[failure(Status.INVALID, "no such template")])
    assert figures["false_accept_rate"] is figures["false_accept_upper95"] is None
    (failing,) = failings(figures, 1.0)
    assert "1 of 1 rows got no score" in failing


@pytest.mark.parametrize(("bound", "fails"), [(0.0, True), (0.009, True), (0.01, False)])
def test_a_rate_above_the_bound_fails(bound: float, fails: bool) -> None:
    figures = report(keys=[scored(1.0)] + [scored(0.0)] * 99)
    assert bool(failings(figures, bound)) is fails


@pytest.mark.parametrize(("lost", "fails"), [(1, False), (2, True)])
def test_more_than_one_percent_without_a_score_fails(lost: int, fails: bool) -> None:
    figures = report(keys=[failure(Status.ERROR, "broken")] * lost + [scored(0.0)] * (100 - lost))
    assert bool(failings(figures, 0.0)) is fails
