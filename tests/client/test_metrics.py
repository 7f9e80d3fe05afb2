from __future__ import annotations

from reward_serve.client import metrics_of
from reward_serve.client.fallback import settle
from reward_serve.schema import ScoreResult, Status, failure

ASKED = {"response": "#### 18", "reference": "18"}


def true_metrics(result: ScoreResult) -> set[str]:
    return {name for name, value in metrics_of(result).items() if value}


def test_a_verdict_is_ok_and_says_whether_a_rule_gave_it() -> None:
    assert true_metrics(ScoreResult(status=Status.OK, score=1.0, source="judge")) == {"ok"}
    assert true_metrics(ScoreResult(status=Status.OK, score=1.0, source="rule")) == {
        "ok",
        "by_rule",
    }


def test_a_fallback_tells_in_which_failures_place_it_stands() -> None:
    settled = settle(ASKED, failure(Status.TIMEOUT, "error: 60 s passed"), "rule")

    assert settled.score == 1.0
    assert true_metrics(settled) == {"fallback", "failed_timeout"}


def test_undecided_samples_are_counted_by_status() -> None:
    assert true_metrics(failure(Status.OVERLOADED, "full")) == {"undecided", "failed_overloaded"}


def test_the_keys_are_always_the_same() -> None:
    ok = ScoreResult(status=Status.OK, score=0.0, source="cache")
    assert metrics_of(ok).keys() == metrics_of(failure(Status.ERROR, "dead")).keys()
