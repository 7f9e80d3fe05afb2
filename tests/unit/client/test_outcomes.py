from typing import Any

import pytest

from reward_serve.client.outcomes import ScoringError, check_on_failure, metrics_of, settle
from reward_serve.schema import ScoreResult, Status, failure
from tests.rows import rows

LOST = failure(Status.ERROR, "no service", id="a")


def request(response: str = "#### 18", **fields: Any) -> dict[str, Any]:
    return {"response": response, "reference": "18", **fields}


def test_none_leaves_a_failure_alone_and_raise_tells_status_and_reason() -> None:
    assert settle(request(), LOST, "none") is LOST
    error = settle(request(), LOST, "raise")
    assert isinstance(error, ScoringError) and "error: no service" in str(error)
    assert error.result is LOST


@pytest.mark.parametrize(
    ("response", "on_failure", "score"),
    [("#### 18", "rule", 1.0), ("#### 17", "rule", 0.0), ("#### 18", -0.5, -0.5)],
)
def test_a_fallback_scores_and_says_so(response: str, on_failure: Any, score: float) -> None:
    settled: Any = settle(request(response), LOST, on_failure)
    assert (settled.status, settled.score, settled.source) == (Status.OK, score, "fallback")
    assert (settled.id, settled.reason) == ("a", "error: no service")


@pytest.mark.parametrize(
    "asked", [request("It may be 18 or so"), {"response": "#### 18"}, {"reference": "18"}, {}]
)
def test_what_the_rule_cannot_prove_stays_a_failure(asked: dict[str, Any]) -> None:
    assert settle(asked, LOST, "rule") is LOST


@pytest.mark.parametrize(("response", "reference", "score"), rows(__file__, "words"))
def test_texts_without_a_rule_compare_by_words(response: str, reference: Any, score: float) -> None:
    settled: Any = settle({"response": response, "reference": reference}, LOST, "lexical")
    assert settled.source == "fallback"
    assert settled.score == pytest.approx(score)


@pytest.mark.parametrize(
    "asked", [request("It may be 18 or so"), {"response": "#### 18"}, {"reference": "18"}]
)
def test_words_do_not_decide_a_number(asked: dict[str, Any]) -> None:
    assert settle(asked, LOST, "lexical") is LOST


@pytest.mark.parametrize(
    ("setting", "meant"), [("rule", "rule"), ("lexical", "lexical"), ("0.5", 0.5), (0, 0.0)]
)
def test_a_setting_may_be_text(setting: Any, meant: Any) -> None:
    assert check_on_failure(setting) == meant


@pytest.mark.parametrize("setting", ["zero", "nan", float("inf"), []])
def test_a_setting_that_is_none_of_the_choices_is_refused(setting: Any) -> None:
    with pytest.raises(ValueError, match="on_failure"):
        check_on_failure(setting)


JUDGED, BY_RULE = (
    ScoreResult(status=Status.OK, score=1.0, source=source) for source in ("judge", "rule")
)
FULL = failure(Status.OVERLOADED, "full")
REPLACED = settle(request(), failure(Status.TIMEOUT, "error: 60 s passed"), "rule")


@pytest.mark.parametrize(
    ("result", "metrics"),
    [
        (JUDGED, {"ok"}),
        (BY_RULE, {"ok", "by_rule"}),
        (REPLACED, {"fallback", "failed_timeout"}),
        (FULL, {"undecided", "failed_overloaded"}),
    ],
)
def test_metrics_tell_how_a_request_ended(result: Any, metrics: set[str]) -> None:
    assert {name for name, value in metrics_of(result).items() if value} == metrics
    assert metrics_of(result).keys() == metrics_of(JUDGED).keys()
