from __future__ import annotations

from typing import Any

import pytest

from loadtests.load.checking import (
    GRACE_S,
    check,
    check_batch,
    disagreement,
    too_close,
    within_deadline,
)
from loadtests.tests.load.rows import reply, sample
from reward_serve.schema import ScoreResult, Status

ASKED = sample()


def test_a_valid_reply_is_answered() -> None:
    checked = check(ASKED, reply(ASKED), 200)

    assert (checked.outcome, checked.failure) == ("answered", None)
    assert checked.result is not None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"id": "id-2"}, "another request's id"),
        ({"id": None}, "another request's id"),
        ({"metadata": {"sample": 2}}, "another request's metadata"),
        ({"score": 0.5}, "no label's value"),
        ({"score": None}, "score=None does not fit"),
        ({"status": "error"}, "does not fit status='error'"),
        ({"status": "fine"}, "not a result: status"),
        ({"extra": 1}, "keys missing or unknown: extra"),
        ({"detail": "only failures have one"}, "keys missing or unknown: detail"),
    ],
)
def test_a_reply_that_does_not_match_its_request_is_wrong(
    changed: dict[str, Any], why: str
) -> None:
    checked = check(ASKED, reply(ASKED, **changed), 200)

    assert checked.outcome == "wrong"
    assert why in checked.why


def test_a_missing_key_is_wrong() -> None:
    short = reply(ASKED)
    del short["usage"]

    assert check(ASKED, short, 200).failure == "wrong: keys missing or unknown: usage"


def test_a_status_without_a_score_is_absent() -> None:
    shed = reply(ASKED, status="overloaded", score=None, detail="the queue is full")

    assert check(ASKED, shed, 503).failure == "absent: overloaded"
    assert check(ASKED, reply(ASKED, status="error", score=None), 200).failure == "absent: error"


def test_an_http_code_that_does_not_match_the_status_is_wrong() -> None:
    shed = reply(ASKED, status="overloaded", score=None)

    assert check(ASKED, shed, 200).failure == "wrong: HTTP 200 with status overloaded"
    assert check(ASKED, reply(ASKED), 504).failure == "wrong: HTTP 504 with status ok"


@pytest.mark.parametrize("content", [None, [], "ok", {"detail": "Internal Server Error"}])
def test_an_untyped_reply_is_lost(content: Any) -> None:
    assert check(ASKED, content, 500).failure == "lost: untyped reply, HTTP 500"
    assert check(ASKED, content).failure == "lost: untyped reply"


def test_a_batch_is_checked_item_by_item_in_order() -> None:
    asked = [sample(1), sample(2), sample(3)]
    replies = [reply(asked[0]), reply(asked[2]), reply(asked[1])]

    outcomes = [each.outcome for each in check_batch(asked, {"results": replies}, 200)]
    assert outcomes == ["answered", "wrong", "wrong"]


def test_a_batch_of_another_size_is_wrong_and_a_missing_one_lost() -> None:
    asked = [sample(1), sample(2)]
    short = check_batch(asked, {"results": [reply(asked[0])]}, 200)

    assert [each.failure for each in short] == ["wrong: 1 results for 2 requests"] * 2
    for content, code in ((None, 200), ({"detail": "?"}, 500)):
        assert {each.outcome for each in check_batch(asked, content, code)} == {"lost"}


def test_a_reply_after_the_deadline_and_grace_is_lost() -> None:
    checked = check(ASKED, reply(ASKED), 200)

    assert within_deadline(checked, 10 + GRACE_S, 10) is checked
    assert within_deadline(checked, 10.1 + GRACE_S, 10).failure == "lost: late"


def judged(score: float, likeliest: float) -> ScoreResult:
    label = str(int(score))
    probabilities = {label: likeliest, str(1 - int(score)): 1 - likeliest}
    return ScoreResult(status=Status.OK, score=score, probabilities=probabilities)


def test_another_score_is_a_disagreement_outside_the_margin() -> None:
    assert disagreement(judged(1.0, 0.9), judged(1.0, 0.6)) is None
    assert disagreement(judged(1.0, 0.9), judged(0.0, 0.9)) == "score 1 under load, 0 without load"
    assert too_close(judged(0.0, 0.519))
    assert not too_close(judged(0.0, 0.521))
    assert not too_close(ScoreResult(status=Status.OK, score=1.0, source="rule"))
