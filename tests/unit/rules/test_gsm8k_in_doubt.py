"""Responses whose number a rule cannot know: both verdicts would be false proofs."""

from __future__ import annotations

import pytest

from reward_serve.rules import verify
from reward_serve.rules.base import takes_long
from reward_serve.schema import ScoreRequest

WORK = "9 * 2 = 18\n#### 18\nCheck: 9 * 2 = 18"
STEPS = "".join(f"{day}) How many on day {day}? Answer: {3 * day}\n" for day in range(1, 9))


@pytest.mark.parametrize("reference", ["7", "9", "18"])
def test_a_response_of_questions_and_answers_is_not_cut_at_the_second(reference: str) -> None:
    response = "Q: Eats?\nA: 7\nQ: Left?\nA: 9\nQ: So how much does she earn?\nA: 18"
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("The answer is 18, 12 apples and 6 pears.", "18"),
        ("#### 75 dollars, 40 for food and 35 for gas", "75"),
        (r"So she pays \boxed{75} dollars, 40 for food and 35 for gas.", "75"),
        ("The answer is 18 pears, 11 for Ann and 7 for Ben.", "18"),
        (f"{STEPS}#### 108", "108"),
    ],
)
def test_parts_of_an_answer_are_no_second_answer(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("reference", ["18", "36"])
@pytest.mark.parametrize(
    "tail",
    [
        ". So the total is twice this.",
        ". Take half.",
        ". Double this for the total.",
        ". Multiply by the cost.",
        ", and 18 + 18 = 36 is required.",
    ],
)
def test_a_verification_may_end_in_another_answer(tail: str, reference: str) -> None:
    assert verify(WORK + tail, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("There are fortyfive pears left in the box.", "45"),
        ("There are ninetysix of them", "96"),
        ("So she has twohundred dollars and that is all.", "200"),
        ("There are sevnty pears", "70"),
        ("It is her seventeenth birthday, and she is happy.", "17"),
        ("It is her fortieth, you know", "40"),
        ("There are 6 rows with 11 in each row", "66"),
        ("that is 6 x11", "66"),
    ],
)
def test_a_number_in_unusual_words_is_not_absent(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("unit", ["mn", "cr", "lacs", "tn", "kk", "thds", "sextillion", "zillions"])
def test_a_multiplier_is_no_unit(unit: str) -> None:
    assert verify(f"#### 18 {unit}", "18").outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        (r"\boxed{\frac{1}{3}}", "0.33"),
        ("#### 3.14", "3.1"),
        ("#### 1.54", "1.5"),
        ("The answer is 15.", "3 pm"),
        ("The answer is 3 pm.", "15"),
    ],
)
def test_a_rounded_reference_and_a_clock_leave_doubt(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("reference", ["3x", "2,3", "yes", r"\frac{x}{2}"])
def test_a_reference_that_is_no_number_is_compared_off_the_loop(reference: str) -> None:
    assert takes_long(ScoreRequest(response="#### 4x", reference=reference))
    assert not takes_long(ScoreRequest(response="#### 4x", reference="#### 18 dollars"))
