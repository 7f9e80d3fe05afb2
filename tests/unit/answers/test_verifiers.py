"""The verifiers besides gsm8k's: exact, numeric, and the strict formats of trainers."""

import pytest
from skyrl_gym.envs.gsm8k.utils import compute_score

from reward_serve_answers.values import UnusableReferenceError
from reward_serve_answers.verifiers import (
    grade_exact,
    grade_numeric,
    grade_strict_first,
    grade_strict_last,
    verify_strict_any,
)
from tests.rows import rows


@pytest.mark.parametrize(("response", "reference", "score"), rows(__file__, "exact"))
def test_exact_overlooks_the_invisible(response: str, reference: str, score: float | None) -> None:
    assert grade_exact(response, reference).score == score


@pytest.mark.parametrize(
    ("response", "reference", "score"), [*rows(__file__, "numeric"), ("18" + " x" * 150, "18", 0.0)]
)
def test_numeric_compares_last_numbers_values(response: str, reference: str, score: float) -> None:
    assert grade_numeric(response, reference).score == score


@pytest.mark.parametrize("cut", [r"\boxed{1", r"\boxed{", r"\boxed", r"\boxed {\frac{1}{2}"])
def test_numeric_is_undecided_where_the_answer_was_cut_off(cut: str) -> None:
    grade = grade_numeric(rf"\boxed{{17}}. No, wait: it is {cut}", "17")
    assert (grade.score, grade.rule) == (None, "cut_off")


@pytest.mark.parametrize("reference", ["Paris", "17 or 18", "####", "x^2"])
def test_numeric_refuses_a_reference_that_is_no_number(reference: str) -> None:
    with pytest.raises(UnusableReferenceError, match="send"):
        grade_numeric("18", reference)


# What verl 0.9.1's compute_score(..., method="strict") says, read from its source, since verl's
# pins need another environment; skyrl_gym's is asked itself. They differ in three cases.
STRICT = [
    *rows(__file__, "strict"),
    ("#### 18" + " " * 300, "18", 0.0),
    ("#### 18" + " " * 293, "18", 1.0),
]


@pytest.mark.parametrize(("response", "reference", "verls"), STRICT)
def test_strict_matches_score_as_trainers(response: str, reference: str, verls: float) -> None:
    assert grade_strict_last(response, reference).score == verls
    assert grade_strict_first(response, reference).score == compute_score(response, reference)


@pytest.mark.parametrize("grade", [grade_strict_first, grade_strict_last])
def test_a_strict_matchs_reference_may_be_a_whole_solution(grade: object) -> None:
    assert callable(grade)
    assert grade("#### 1800", "9 * 200 = 1,800\n#### $1,800").score == 1.0
    with pytest.raises(UnusableReferenceError, match="contains no answer"):
        grade("#### 18", "####")


@pytest.mark.parametrize(
    ("response", "reference"),
    [*rows(__file__, "closing_line"), ("9 eggs at $2.\n" * 500 + "#### 18", "18")],
)
def test_the_right_number_on_a_closing_line_is_right(response: str, reference: str) -> None:
    assert verify_strict_any(response, [reference]).rule == "marker_matches"


@pytest.mark.parametrize(("response", "rule"), rows(__file__, "wrong"))
def test_without_the_marker_even_a_right_answer_is_wrong(response: str, rule: str) -> None:
    verification = verify_strict_any(response, ["18", "19"])
    assert (verification.outcome, verification.rule) == ("wrong", rule)


@pytest.mark.parametrize(
    ("response", "rule"),
    [*rows(__file__, "in_doubt"), ("#### 18\n" + " " * 300, "strict_marker_in_doubt")],
)
def test_a_closing_line_in_another_shape_is_left_to_the_judge(response: str, rule: str) -> None:
    verification = verify_strict_any(response, ["18"])
    assert (verification.outcome, verification.rule) == ("abstain", rule)


def test_any_reference_makes_it_right_and_all_make_it_wrong() -> None:
    assert verify_strict_any("#### 18", ["17", "18"]).outcome == "right"
    assert verify_strict_any("#### 18", ["17", "19"]).outcome == "wrong"
    assert verify_strict_any("#### 18", ["17", "Paris"]).outcome == "abstain"
    with pytest.raises(ValueError, match="contains no answer"):
        verify_strict_any("#### 18", ["18", "####"])
    with pytest.raises(ValueError, match="references: is empty"):
        verify_strict_any("#### 18", [])
