from __future__ import annotations

import pytest

from reward_serve_answers.values import UnusableReferenceError
from reward_serve_answers.verifiers import grade_numeric

# The last column is what verl 0.9.1's method="flexible" says, read from its source.
CASES = [
    pytest.param("so 18", "18", 1.0, 1.0, id="bare"),
    pytest.param("17, no, 18", "18", 1.0, 1.0, id="the last"),
    pytest.param("18, not 17", "18", 0.0, 0.0, id="not the first"),
    pytest.param("-5", "-5", 1.0, 1.0, id="negative"),
    pytest.param("18" + " x" * 150, "18", 0.0, 0.0, id="before the final 300 characters"),
    pytest.param("18 . . .", "18", 1.0, 1.0, id="points alone are no number"),
    pytest.param("18%", "18", 1.0, 1.0, id="what follows is not read"),
    pytest.param("none", "18", 0.0, 0.0, id="no number"),
    pytest.param(".", "18", 0.0, 0.0, id="a point"),
    pytest.param("1.8.1", "18", 0.0, 0.0, id="a version"),
    pytest.param("17,18", "1718", 0.0, 0.0, id="a list is no thousand"),
    pytest.param("١٨", "18", 0.0, 0.0, id="other digits"),
    # where a value is not its writing
    pytest.param("The answer is 18.", "18", 1.0, 0.0, id="a full stop"),
    pytest.param("1,800", "1800", 1.0, 0.0, id="thousands"),
    pytest.param("18.00", "18", 1.0, 0.0, id="decimals"),
    pytest.param("18 , ", "18", 1.0, 0.0, id="a comma alone"),
]


@pytest.mark.parametrize(("response", "reference", "score", "verls"), CASES)
def test_the_last_number_counts_by_value(
    response: str, reference: str, score: float, verls: float
) -> None:
    assert grade_numeric(response, reference).score == score
    assert score >= verls


@pytest.mark.parametrize("cut", [r"\boxed{1", r"\boxed{", r"\boxed", r"\boxed {\frac{1}{2}"])
def test_an_answer_that_was_cut_off_is_none(cut: str) -> None:
    grade = grade_numeric(rf"\boxed{{17}}. No, wait: it is {cut}", "17")
    assert (grade.score, grade.rule) == (None, "cut_off")


@pytest.mark.parametrize(
    "reference", ["#### 1,800", "$1800", "1800 dollars", "so it is\n#### 1800"]
)
def test_a_reference_is_read_by_value_too(reference: str) -> None:
    assert grade_numeric("1800", reference).score == 1.0


@pytest.mark.parametrize("reference", ["Paris", "17 or 18", "####", "x^2"])
def test_a_reference_that_is_no_number_cannot_be_used(reference: str) -> None:
    with pytest.raises(UnusableReferenceError, match="send"):
        grade_numeric("18", reference)
