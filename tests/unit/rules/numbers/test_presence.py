from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reward_serve.rules.numbers.presence import may_equal, may_hold

EIGHTEEN = Fraction(18)


@pytest.mark.parametrize(
    "text",
    [
        "the 18",
        "the 18.0",
        "the -18",
        "the 18%",
        "the 17.999",
        "the 1 8",
        "the 1\n8",
        "the **1** **8**",
        "the 1,8",
        "the 1\u200b8",
        "the \u202e81",
        "the 18k",
        "the 0x12",
        "the 1.8e1",
        "the 1.8 \u00d7 10^1",
        "the 1800 cents",
        "the 1.8 thousand",
        "eighteen, she said",
        "the \uff45ighteen",
        "the XVIII",
        "the xviii",
        "a dozen and a half, she said",
        "she has nine, twice",
        "she has two more than sixteen",
        "she has 16 and 2",
        "she has 16 and another 2",
        "she has 16. Then she gets 2 more.",
        "she has 17. Then she gets another.",
        "16 and 2 are the numbers, and the answer is their sum",
        "the \u0661\u0668",
        "the \uff11\uff18",
        "the \u2471",
        "the \U0001d7cf\U0001d7d6",
        "the \u5341\u516b",
        "the \U0001f51f",
        "the 36/2",
        r"the \frac{36}{2}",
        r"the 17 \frac{2}{2}",
        "the 9*2",
        "the 9 * 2",
        "the 9 x 2",
        "the 9 \u00b7 2",
        "the 9(2)",
        "the 20 - 2",
        "the sum is 3 + 15",
        "then 17 - 4 = 13, and 13 + 5",
        "then 9 * 2 =",
        "the 17-19",
        "the \u221a324",
        r"the \sqrt{324}",
        "the 4! of these",
        "the 2**4 of these",
        "La respuesta es dieciocho",
        "she says the total is dieciocho",
        "the total is dix-huit",
        "forget the two thousand and fifty. Eighteen!",
        "not the fifty, eighteen",
        "the three sixes",
        "the eigh-teen",
        "the eightteen",
        "the e i g h t e e n",
        "the ||||| ||||| ||||| |||",
        "the first digit is one, and the second is eight",
        "the 81, read backwards",
        "the 17.5, which is rounded",
        "the 17.2 she has",
        "the <b>1</b>8",
        r"the \text{1}\text{8}",
        "the " + "9" * 100,
    ],
)
def test_eighteen_may_be_found_in(text: str) -> None:
    assert may_hold(text, EIGHTEEN)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("It takes 2 hours", 120),
        ("It takes an hour, and that is all", 60),
        ("It takes 2 hours and 30 minutes", 150),
        ("The fare is nineteen dollars and twenty-five cents", Fraction("19.25")),
        ("The fare is nineteen dollars and twenty five cents", Fraction("19.25")),
        ("It takes one hour and thirty minutes", 90),
        ("she is 5 feet 6 inches", 66),
        ("this starts at 2:30", 230),
        ("the 1.800,00", 1800),
        ("the 1 800", 1800),
        ("the one thousand eight hundred", 1800),
        ("twenty and one, she said", 21),
        ("twenty-six or seven, she said", 27),
        ("the two and a half", Fraction(5, 2)),
        ("the 3 1/2", Fraction(7, 2)),
        ("the .5", Fraction(1, 2)),
        ("the 0.333", Fraction(1, 3)),
    ],
)
def test_other_units_and_forms_may_hold(text: str, value: int | Fraction) -> None:
    assert may_hold(text, Fraction(value))


@pytest.mark.parametrize("text", ["There are none left", "It is free", "the dog eats it", "the 5"])
@pytest.mark.parametrize("value", [0, 1])
def test_zero_and_one_need_no_digit(text: str, value: int) -> None:
    assert may_hold(text, Fraction(value))


@pytest.mark.parametrize(
    "text",
    [
        "17 - 4 = 13 pears are left, and 13 - 2 = 11 of them are sold for $5",
        "She sells 17 - 4 = <<17-4=13>>13 pears, and that is all.",
        "the 187",
        "the 118",
        "the 81",
        "She has twenty-five pears",
        r"She pays \frac{1}{5} of the $25",
        "I don't know",
        "This response is correct and complete",
        "The grade is 0 when the final answer has another value, or when there is none",
        "1: this has the value or nothing. Reply 2, 1 or 0.",
    ],
)
def test_eighteen_is_in_no_form_in(text: str) -> None:
    assert not may_hold(text, EIGHTEEN)


def test_a_text_too_long_to_read_may_hold_anything() -> None:
    assert not may_hold("the 5 " * 100, EIGHTEEN)
    assert may_hold("the 5 " * 10_000, EIGHTEEN)


@pytest.mark.parametrize(
    ("number", "other", "units", "equal"),
    [
        ("18", "18", False, True),
        ("-18", "18", False, True),
        ("1800", "18", False, True),
        ("0.018", "18", False, True),
        ("18.1", "18", False, True),
        ("18.5", "18", False, False),
        ("1799", "1800", False, False),
        ("2", "120", True, True),
        ("2", "120", False, False),
        ("0", "18", True, False),
    ],
)
def test_two_amounts_may_be_one(number: str, other: str, units: bool, equal: bool) -> None:
    assert may_equal(Fraction(number), Fraction(other), units=units) is equal


@given(
    st.text(max_size=100), st.integers(min_value=-(10**9), max_value=10**9), st.text(max_size=100)
)
@example("the 1", 18, "")
def test_a_number_in_plain_sight_is_never_called_absent(
    before: str, value: int, after: str
) -> None:
    assert may_hold(f"{before} {value} {after}", Fraction(value))


@given(st.text(max_size=300), st.fractions())
def test_any_text_and_value_have_an_answer(text: str, value: Fraction) -> None:
    assert may_hold(text, value) in {True, False}
