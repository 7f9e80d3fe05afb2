import pytest

from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_lab.ui.attacking import outcome, unscored

REJECTED = ScoreResult(status=Status.OK, score=0.0)
ACCEPTED = ScoreResult(status=Status.OK, score=1.0)
INVALID = failure(Status.INVALID, "template: 'nope' is not known")


@pytest.mark.parametrize(
    ("results", "text", "tone"),
    [
        ([REJECTED] * 3, "3 wrong responses: 0 earned a reward.", "ok"),
        ([REJECTED, ACCEPTED], "2 wrong responses: 1 earned a reward.", "bad"),
        ([REJECTED, INVALID], "2 wrong responses, 1 scored: 0 earned a reward.", "warn"),
        ([ACCEPTED, INVALID], "2 wrong responses, 1 scored: 1 earned a reward.", "bad"),
        ([INVALID] * 3, "3 wrong responses: none was scored.", "warn"),
    ],
)
def test_attacks_are_well_only_if_every_one_was_judged(
    results: list[ScoreResult], text: str, tone: str
) -> None:
    assert outcome(results) == (text, tone)


def test_attacks_without_a_score_are_counted_by_status_and_reason() -> None:
    late = failure(Status.TIMEOUT, "60 s passed")
    assert unscored([INVALID, late, REJECTED, INVALID]) == [
        "2 invalid: template: 'nope' is not known",
        "1 timeout: 60 s passed",
    ]
