"""What the gsm8k rule proves, and what it leaves to the judge."""

import pytest

from reward_serve_answers import final_answer, verify, verify_any
from reward_serve_answers.committed import MAX_RESPONSE
from reward_serve_answers.values import UnusableReferenceError
from tests.rows import rows


@pytest.mark.parametrize(("response", "reference"), rows(__file__, "right"))
def test_right(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "right"


@pytest.mark.parametrize(("response", "reference"), rows(__file__, "wrong"))
def test_wrong(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "wrong"


@pytest.mark.parametrize(("response", "reference"), rows(__file__, "in_doubt"))
def test_what_must_be_interpreted_is_left_to_the_judge(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize("response", rows(__file__, "doubted"))
def test_a_marker_is_doubted_for_the_text_before_it(response: str) -> None:
    assert verify(response, "18").outcome == "abstain"


@pytest.mark.parametrize(("number", "forms"), rows(__file__, "plain"))
def test_a_plain_number_is_read_exactly(number: str, forms: list[str]) -> None:
    for form in forms:
        assert verify(form, number).outcome == "right", form
        assert verify(f"#### {form}", number).outcome == "right", form
        assert verify(f"#### {form}", "7").outcome != "right", form


OTHER = (
    "about 18|> 18|18k|1.8 million|18 pm|3:30|18e3|9 * 2 = 18|6/8|1/0|3 1/2|1 800|1,80|007|--18|"
    "1.2.3|18%|\u0661\u0668|18\u00b2|18 squared|18 pears and 3|eighteen|18 a b c d e"
)


@pytest.mark.parametrize("text", OTHER.split("|"))
def test_no_other_text_is_a_plain_number(text: str) -> None:
    for gold in ("18", "17", "1800"):
        assert verify(f"#### {text}", gold).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "rule"),
    [
        *rows(__file__, "rules"),
        ("#### 18\n" + "#### 18\n" * 200, "too_many_markers"),
        ("a" * MAX_RESPONSE + "#### 18", "response_too_long"),
    ],
)
def test_the_rule_says_why(response: str, rule: str) -> None:
    assert verify(response, "18").rule == rule


def test_a_solution_is_a_reference_and_the_best_of_several_counts() -> None:
    solution = "They have 5 * 4 = <<5*4=20>>20, of which 2 go.\n#### 18"
    assert final_answer(solution) == "18"
    assert verify_any("#### 18", ["17", solution]).outcome == "right"
    assert verify_any("#### 17", ["18", "18 or 19"]).outcome == "abstain"
    assert verify_any("#### 17", ["18", "19"]).outcome == "wrong"


def test_a_reference_without_an_answer_is_refused() -> None:
    with pytest.raises(UnusableReferenceError, match="contains no answer; send the gold answer"):
        verify("#### 18", "####")
    with pytest.raises(ValueError, match="references: is empty"):
        verify_any("#### 18", [])


@pytest.mark.parametrize(("response", "gold"), rows(__file__, "stated"))
def test_a_value_that_no_numeral_shows_may_be_stated(response: str, gold: str) -> None:
    assert verify(response, gold).outcome == "abstain"
