from __future__ import annotations

import pytest
from skyrl_gym.envs.gsm8k.utils import compute_score

from reward_serve_answers.values import UnusableReferenceError
from reward_serve_answers.verifiers import grade_strict_first, grade_strict_last

# What verl 0.9.1's compute_score(..., method="strict") says, read from its source, since verl's
# pins need another environment; skyrl_gym's is asked itself.
CASES = [
    pytest.param("9 * 2 = 18\n#### 18", "18", 1.0, id="right"),
    pytest.param("#### 17", "18", 0.0, id="wrong"),
    pytest.param("#### 17\n#### 18", "18", 1.0, id="corrected"),
    pytest.param("#### 18\n#### 17", "18", 0.0, id="right first"),
    pytest.param("#### 18" + " " * 300, "18", 0.0, id="beyond the final 300 characters"),
    pytest.param("#### 18" + " " * 293, "18", 1.0, id="just within them"),
    pytest.param("x" * 300 + "\n#### 18", "18", 1.0, id="after a long text"),
    pytest.param("#### 1,800", "1800", 1.0, id="commas"),
    pytest.param("#### $18", "18", 0.0, id="a currency"),
    pytest.param("####18", "18", 0.0, id="no space"),
    pytest.param("#### -5", "-5", 1.0, id="negative"),
    pytest.param("#### 18.", "18", 0.0, id="a full stop"),
    pytest.param("#### 18.0", "18", 0.0, id="another writing"),
    pytest.param("#### 18 dollars", "18", 1.0, id="a unit"),
    pytest.param("The answer is 18.", "18", 0.0, id="no marker"),
    pytest.param("\\boxed{18}", "18", 0.0, id="a box"),
    pytest.param("#### ,", "18", 0.0, id="no digits"),
    pytest.param("#### eighteen", "18", 0.0, id="words"),
    pytest.param("#####  18", "18", 0.0, id="two spaces"),
    pytest.param("##### 18", "18", 1.0, id="five signs"),
    pytest.param("#### ١٨", "18", 0.0, id="other digits"),
    pytest.param("", "18", 0.0, id="empty"),
]


@pytest.mark.parametrize(("response", "reference", "verls"), CASES)
def test_the_last_of_the_final_300_characters_scores_as_verl_does(
    response: str, reference: str, verls: float
) -> None:
    assert grade_strict_last(response, reference).score == verls


@pytest.mark.parametrize(("response", "reference", "verls"), CASES)
def test_the_first_scores_as_skyrl_does(response: str, reference: str, verls: float) -> None:
    assert grade_strict_first(response, reference).score == compute_score(response, reference)


def test_the_two_differ_on_what_comes_first_and_on_long_tails() -> None:
    differing = [
        case.id
        for case in CASES
        if compute_score(str(case.values[0]), str(case.values[1])) != case.values[2]
    ]
    assert differing == ["corrected", "right first", "beyond the final 300 characters"]


@pytest.mark.parametrize("grade", [grade_strict_first, grade_strict_last])
def test_a_reference_may_be_a_whole_solution(grade: object) -> None:
    assert callable(grade)
    assert grade("#### 1800", "9 * 200 = 1,800\n#### 1,800").score == 1.0
    assert grade("#### 1800", "#### $1,800").score == 1.0
    with pytest.raises(UnusableReferenceError, match="contains no answer"):
        grade("#### 18", "####")


def test_a_grade_tells_what_decided_on_what() -> None:
    grade = grade_strict_last("#### 1,700", "1800")
    assert (grade.rule, grade.answer) == ("marker_differs", "1,700")
    assert grade_strict_last("17", "18").rule == "no_marker"
