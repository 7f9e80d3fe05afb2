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
    assert figures["reasons"] == {"timeout": "too late"}
    accepted = figures["accepted"][0]
    assert (accepted["response"], accepted["reference"], accepted["score"]) == ("keys 0", "18", 1.0)


@pytest.mark.parametrize(
    ("results", "bound", "fails"),
    [
        ([scored(1.0)] + [scored(0.0)] * 99, 0.009, True),
        ([scored(1.0)] + [scored(0.0)] * 99, 0.01, False),
        ([failure(Status.ERROR, "broken")] + [scored(0.0)] * 99, 0.0, False),
        ([failure(Status.ERROR, "broken")] * 2 + [scored(0.0)] * 98, 0.0, True),
        ([failure(Status.INVALID, "no such template")], 1.0, True),
    ],
)
def test_too_many_accepts_or_rows_without_a_score_fail(
    results: list[ScoreResult], bound: float, fails: bool
) -> None:
    figures = report(keys=results)
    assert bool(failings(figures, bound)) is fails
    # Wilson's upper end for 0 of 100 is z^2 / (n + z^2), z = 1.96.
    upper = report(keys=[scored(0.0)] * 100)["false_accept_upper95"]
    assert upper == pytest.approx(0.03699, abs=1e-5)
