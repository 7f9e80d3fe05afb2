from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.verifiers.retractions import read_replacement


@pytest.mark.parametrize(
    "response",
    [
        "17. No, 18.",
        "17. No, wait, 18",
        "#### 17\nWait, I made a mistake.\n#### 18",
        "#### 17. Sorry, that should be 18.",
        r"\boxed{17}. No, that cannot be right; it must be 18.",
        "#### 17.\nScratch that.\n" + r"\boxed{18}",
        "The answer is 17. On second thought, I change my final answer to 18.",
        "**Answer: 17**. Correction: the right answer is 18 dollars.",
        "She makes $17. Oops, I forgot a step. It is $18.00.",
        "Seventeen. Actually, eighteen.",
        "17, no, 18!",
    ],
)
def test_the_number_in_the_others_place_is_read(response: str) -> None:
    replacement = read_replacement(response)

    assert replacement is not None
    assert replacement[0].value == 18


def test_what_stands_far_before_does_not_shift_it() -> None:
    replacement = read_replacement(
        "\u00bd of the eggs \u2013 " * 100 + "are left.\n17. No, 18 eggs."
    )

    assert replacement is None  # of eggs nothing is said in the last sentence but one
    assert read_replacement("\u00bd " * 300 + "\n17. No, 18.") is not None


@pytest.mark.parametrize(
    "response",
    [
        pytest.param("", id="nothing"),
        pytest.param("No, 18.", id="nothing was taken back"),
        pytest.param("17, 18.", id="two candidates"),
        pytest.param("17, or maybe 18.", id="a hedge"),
        pytest.param("17. No, not 18.", id="denied too"),
        pytest.param("17. No, 18 or 19.", id="two in its place"),
        pytest.param("17. No, 18 is wrong.", id="taken back in turn"),
        pytest.param("17. No more than 18.", id="a bound"),
        pytest.param("17. Yours, helper no. 18", id="an ordinal"),
        pytest.param("#### 17\nNot quite 18.", id="glued to the number"),
        pytest.param("17. Wait 18 minutes.", id="an instruction"),
        pytest.param("If 17 is wrong, sorry, 18.", id="a supposition"),
        pytest.param("#### 17\nMaybe... no, 18.", id="a hedge before it"),
        pytest.param("#### 17\nThe judge will say: wait, 18.", id="hearsay"),
        pytest.param("17 is right. That is wrong: 18.", id="which is wrong?"),
        pytest.param("17. Wait, 18 eggs broke.", id="a clause"),
        pytest.param("17. Oops, 3 typos.", id="of something else"),
        pytest.param("17. No need to count the 3 eggs.", id="no retraction"),
        pytest.param("17. Actually, there are 2 ways to see it.", id="a remark"),
        pytest.param("17. Wait, is it 18?", id="a question"),
        pytest.param("17. No, 18. Sorry for the confusion, and good luck.", id="more follows"),
        pytest.param("17. No, half of 18.", id="an expression"),
        pytest.param("17. No, \u0661\u0668.", id="another script"),
    ],
)
def test_what_is_no_plain_replacement_is_not_read(response: str) -> None:
    assert read_replacement(response) is None


@given(st.text(alphabet="no wait,.: 178#\n$", max_size=200))
def test_any_text_is_read_or_not(text: str) -> None:
    replacement = read_replacement(text)

    assert replacement is None or replacement[1] in text
