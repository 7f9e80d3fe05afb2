"""Whatever a policy writes: proof of right needs the value, and noise proves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from num2words import num2words

from reward_serve_answers import verify

PIECES = [
    "####", "\\boxed{", "}", "The answer is", "Answer:", "<answer>", "</answer>", "</think>",
    "<think>", "17", "18", "-18", "1,800", "1.8", "18.", "½", "\\frac{1}{2}", "eighteen", "%", "$",
    " dollars",
    " or ", ". No, wait, ", "~~", "=", "\n", " ", "\u200b", "\ud800", "x^2-1", "\\sqrt{", "(", "**",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=30).map("".join)
# Of the template's card: what is equal to the number, however it is written.
NOTATIONS: dict[str, Callable[[int], str]] = {
    "digits": str,
    "a decimal": "{}.0".format,
    "cents": "{}.00".format,
    "thousands": "{:,}".format,
    "currency": "${}".format,
    "dollars": "{} dollars".format,
    "a box": "\\boxed{{{}}}".format,
    "bold": "**{}**".format,
    "LaTeX thousands": lambda n: f"{n:,}".replace(",", "{,}"),
}
FORMS = [
    "#### {}", "#### ${}", r"\boxed{{{}}}", r"\[\boxed{{{}}}\]", "The answer is {}.",
    "So the final answer is **{}**.", "Final Answer: ${}$", "**Answer:** {} dollars", "A: {}",
    "**Final Answer**\n{}", "<answer>{}</answer>", '{{"answer": "{}"}}',
]  # fmt: skip
NOISE = [" ", "\n", "\t", "\u00a0", " dollars", " ducks", " per day", " kg", "$", "."]


@given(texts, st.integers(-2000, 2000))
def test_what_is_right_holds_the_references_value(response: str, gold: int) -> None:
    if verify(response, str(gold)).outcome == "right":
        written = re.sub(r"[\s,{}!\\$*]", "", response).replace("\u2212", "-")
        spelled = {num2words(gold).replace("-", " "), "eighteen", "½", "frac12", "frac{1}{2}"}
        assert str(abs(gold)) in written or any(word in response for word in spelled)


@pytest.mark.parametrize("notation", NOTATIONS.values(), ids=NOTATIONS.keys())
@given(st.integers(0, 10**6), st.sampled_from(["#### {}", "The answer is {}.", "A: {}"]))
def test_the_reference_itself_is_right_in_any_notation_of_the_card(
    notation: Callable[[int], str], value: int, form: str
) -> None:
    answer = form.format(notation(value))
    assume("#### \\boxed" not in answer)  # two markers in one: left to the judge
    response = f"So it comes to this.\n{answer}"
    assert verify(response, f"#### {value}").outcome == "right"


@given(st.integers(0, 999), st.integers(1, 999), st.sampled_from(["{}/{}", "\\frac{{{}}}{{{}}}"]))
def test_a_fraction_itself_is_right(top: int, bottom: int, notation: str) -> None:
    value = Fraction(top, bottom)
    if value.denominator > 1 and value < 1:
        text = notation.format(value.numerator, value.denominator)
        reference = f"#### {value.numerator}/{value.denominator}"
        assert verify(f"#### {text}", reference).outcome == "right"


@given(texts, st.integers(0, 10**4), st.integers(0, 10**4), st.sampled_from(FORMS))
def test_a_later_marker_with_another_number_takes_right_away(
    response: str, gold: int, other: int, form: str
) -> None:
    for right in (response, f"{response}\n#### {gold}"):
        verification = verify(f"{right}\n{form.format(other)}", str(gold))
        assert other == gold or verification.outcome != "right"


@given(
    st.integers(0, 10**5),
    st.integers(0, 10**5),
    st.sampled_from(FORMS),
    st.lists(st.sampled_from(NOISE), max_size=6),
    st.lists(st.sampled_from(NOISE[:4]), max_size=6),
    st.lists(st.sampled_from(NOISE), max_size=6),
)
def test_blanks_and_units_make_no_wrong_answer_right(
    value: int, gold: int, form: str, before: list[str], inside: list[str], after: list[str]
) -> None:
    answer = form.format("".join(inside) + str(value) + "".join(inside))
    response = f"{''.join(before)}{answer}{''.join(after)}"
    assert value == gold or verify(response, str(gold)).outcome != "right"
