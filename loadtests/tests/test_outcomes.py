from collections.abc import Sequence
from typing import Any

import pytest

from loadtests.load.corpus import Body, Sample
from loadtests.load.outcomes import Checked, Outcomes, check, check_batch
from reward_serve.schema import ScoreResult, Status


def sample(number: int = 1) -> Sample:
    body = {"response": f"{number}: 18", "id": f"id-{number}", "metadata": {"sample": number}}
    return Sample(body, True)


def reply(asked: Sample, **changed: Any) -> dict[str, Any]:
    fields = {"status": "ok", "score": 1.0, "source": "judge", "model": "judge", **changed}
    echoed = {"id": asked.body["id"], "metadata": asked.body["metadata"]}
    blank = ScoreResult.model_validate({"status": "error"}).model_dump(mode="json")
    return blank | echoed | fields


ASKED = sample()
SHED = {"status": "overloaded", "score": None}


@pytest.mark.parametrize(
    ("changed", "code", "failure"),
    [
        ({}, 200, None),
        ({"id": "id-2"}, 200, "wrong: another request's id"),
        ({"metadata": {"sample": 2}}, 200, "wrong: another request's metadata"),
        ({"score": 0.5}, 200, "wrong: the score is no label's value"),
        ({"score": None}, 200, "wrong: not a result"),
        ({"status": "error"}, 200, "wrong: not a result"),
        ({"extra": 1}, 200, "wrong: keys missing or unknown: extra"),
        ({}, 504, "wrong: HTTP 504 with status ok"),
        (SHED, 200, "wrong: HTTP 200 with status overloaded"),
        ({**SHED, "detail": "the queue is full"}, 503, "absent: overloaded"),
    ],
)
def test_a_reply_is_checked_against_its_request(
    changed: dict[str, Any], code: int, failure: str | None
) -> None:
    actual = check(ASKED, reply(ASKED, **changed), code).failure

    assert actual == failure or (failure and str(actual).startswith(failure))


@pytest.mark.parametrize("content", [None, [], "ok", {"detail": "Internal Server Error"}])
def test_an_untyped_reply_is_lost(content: Any) -> None:
    assert check(ASKED, content, 500).failure == "lost: untyped reply, HTTP 500"
    assert {checked.outcome for checked in check_batch([ASKED] * 2, content, 500)} == {"lost"}


def test_a_batch_is_checked_item_by_item_in_order() -> None:
    asked = [sample(1), sample(2), sample(3)]
    replies = [reply(asked[0]), reply(asked[2]), reply(asked[1])]

    outcomes = [checked.outcome for checked in check_batch(asked, {"results": replies}, 200)]
    assert outcomes == ["answered", "wrong", "wrong"]
    short = check_batch(asked[:2], {"results": replies[:1]}, 200)
    assert [checked.failure for checked in short] == ["wrong: 1 results for 2 requests"] * 2


def loaded(*changes: dict[str, Any], **settings: Any) -> Outcomes:
    """Outcomes of one reply for each change, a second apart."""
    outcomes = Outcomes(**settings)
    for at, changed in enumerate(changes, 1):
        asked = sample(at)
        outcomes.ask([asked], 0.0)
        code = 503 if changed.get("status") == "overloaded" else None
        checked = check(asked, reply(asked, **changed), code)
        outcomes.record(asked, checked, 100.0 * at, float(at))
    return outcomes


CLOSE = {"probabilities": {"1": 0.51, "0": 0.49}}
FURTHER = {"probabilities": {"1": 0.521, "0": 0.479}}
ABSTAINED = {"status": "unparseable", "score": None, "probabilities": {"1": 0.75, "0": 0.25}}


@pytest.mark.parametrize(
    ("score", "without_load", "counts", "expected"),
    [
        (1.0, {}, {"right": 1, "agreement_with_labels": 1.0}, []),
        (0.0, {"score": 0.0}, {"right": 1, "agreement_with_labels": 0.0}, []),  # a judge errs
        (0.0, {}, {"wrong": 1}, ["wrong: score 0 under load, 1 without load"]),
        (0.0, CLOSE, {"too_close": 1, "wrong": 0}, []),
        (0.0, FURTHER, {"wrong": 1}, ["wrong: score 0 under load, 1 without load"]),
        (1.0, ABSTAINED, {"too_close": 1, "unchecked": 0}, []),
        (1.0, None, {"unchecked": 1, "right": 0}, []),
    ],
)
def test_an_answer_is_compared_with_the_one_without_load(
    score: float, without_load: dict[str, Any] | None, counts: dict[str, Any], expected: list[str]
) -> None:
    def ask(bodies: Sequence[Body]) -> list[ScoreResult | None]:
        assert all(body["options"] == {"cache": False} for body in bodies)
        fields = {"status": "ok", "score": 1.0, **(without_load or {})}
        return [ScoreResult.model_validate(fields) if without_load is not None else None] * len(
            bodies
        )

    outcomes, notes = loaded({"score": score}), list[str]()
    outcomes.close()
    outcomes.compare_without_load(ask, notes.append)
    summary = outcomes.summary()
    assert notes == expected
    assert {name: summary[name] for name in counts} == counts
    fails = bool(summary["wrong"] or summary["unchecked"])
    assert bool(outcomes.failures(1.0)) is fails


def test_a_sample_without_a_reply_at_the_end_is_lost() -> None:
    outcomes = loaded({}, {})
    outcomes.ask([sample(2), sample(3)], 1.0)
    outcomes.record(sample(2), Checked("lost", "late"), 1.0, 1.0)
    outcomes.close()

    summary = outcomes.summary()
    assert summary["reasons"] == {"lost: late": 1, "lost: no answer when the run ended": 1}
    assert outcomes.failures(1.0) == ["2 lost"]
    assert (summary["p50_ms"], summary["answers_per_s"]) == (150.0, 1.0)
    assert summary["sources"] == {"judge": 2}


def test_more_absent_scores_than_allowed_fail_the_run_unless_tolerated() -> None:
    outcomes = loaded({}, {}, {}, SHED)

    assert outcomes.failures(0.0) == ["1 absent, 25.0% of all requests"]
    assert outcomes.failures(0.25) == []
    spike = frozenset([Status.OVERLOADED])
    assert loaded({}, SHED, tolerated=spike).failures(0.0) == []
    assert Outcomes().failures(1.0) == ["no request was sent"]


def test_a_judge_that_abstains_fails_no_run_and_one_without_a_verdict_does() -> None:
    outcomes = loaded({}, ABSTAINED)
    outcomes.close()

    assert outcomes.failures(0.0) == []
    assert (outcomes.summary()["abstained"], outcomes.summary()["absent"]) == (1, {})
    without_verdict = loaded({}, {**ABSTAINED, "probabilities": None})
    assert without_verdict.failures(0.0) == ["1 absent, 50.0% of all requests"]
