from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve_judge.canonical import canonical
from reward_serve_judge.notation import plain_formulas
from reward_serve_judge.places import stated


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r"\(\dfrac{x^{2}}{3} + \sqrt{6}\)", "sqrt(6)+x^2/3"),
        ("7*x**4 + 2", "7x^4+2"),
        (r"$5 \cdot x^{10}$", "5x^10"),
        (r"\frac{1}{2}x", "x/2"),
        (r"3\tfrac{1}{2}\,\text{m}", "3 1/2 m"),
        ("(8t + 7)/2", "4t+7/2"),
        (r"-\frac{3x^{2} - 8x}{2}", "-3x^2/2+4x"),
        (r"\sqrt[3]{5}", "cbrt(5)"),
        ("2π", "2pi"),
        (r"\ln(2x)", "ln(2x)"),
        (r"x^{-2}", "x^(-2)"),
        (r"18 \le x < 46", "[18, 46)"),
        ("x > 5", "(5, inf)"),
        ("x ≤ -1/2", "(-inf, -1/2]"),
        (r"x \in [-6,\infty)", "[-6, inf)"),
        (r"\left(3,-4\right)", "(3, -4)"),
        (r"\{3,-4,1/2\}", "{-4, 1/2, 3}"),
        ('["z","x"]', "[z, x]"),
        ("22,-7,-16", "22, -7, -16"),
        ("x = 18 and y = -9", "(18, -9)"),
        ("x = 2, x = -1", "{-1, 2}"),
        (r"\mathbf{\{1,\text{Co}\}}", "{1, Co}"),
    ],
)
def test_a_formula_is_shown_in_one_notation(written: str, shown: str) -> None:
    assert plain_formulas(written) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "She pays 1,800 dollars, not 1,801.",
        "2 + 3 = 5, so it is 9 - 4.",
        "a well-known 4-year-old, 2026-11-24",
        "eighteen hundred (1,800) eggs",
        "**18** and *3*",
        "$18 and $20",
        "This costs $5 in all, and a tip of $2",
        "<b>18</b>",
        "</response>",
        "f(x)",
        "18 > 17",
        "and/or",
        "\\",
        "{",
    ],
)
def test_other_text_is_kept(text: str) -> None:
    assert plain_formulas(text) == text


coefficients = st.integers(-20, 20).filter(bool)


@given(st.lists(coefficients, min_size=2, max_size=4), st.integers(1, 9), st.randoms())
def test_a_sum_is_shown_alike_in_any_order_and_over_any_denominator(
    factors: list[int], bottom: int, rng: Random
) -> None:
    terms = [f"{factor:+}x^{power}" for power, factor in enumerate(factors, start=2)]
    others = list(terms)
    rng.shuffle(others)
    one, other = ("".join(each).removeprefix("+") for each in (terms, others))
    assert plain_formulas(f"({one})/{bottom}") == plain_formulas(rf"\frac{{{other}}}{{{bottom}}}")


@given(st.lists(coefficients, min_size=2, max_size=4), st.data())
def test_a_sum_with_another_coefficient_is_shown_differently(
    factors: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(factors) - 1))
    other = [*factors[:at], data.draw(coefficients.filter(lambda n: n != factors[at]))]
    other += factors[at + 1 :]
    shown = [
        canonical("".join(f"{factor:+}*x**{power}" for power, factor in enumerate(each, start=2)))
        for each in (factors, other)
    ]
    assert shown[0] != shown[1]


@pytest.mark.timeout(60)  # it takes a second; what is quadratic takes minutes
@pytest.mark.parametrize(
    "piece",
    [
        "(", "1,", "$a", "a+b", "(a,", r"\sqrt{", "x=1,", "x<", "(1+", "x^", "(((a+b)/2", "one ",
        "1/", "minus 1 ", "a hundred and ", "9", "½", r"\frac{1}{2}", "$", "1.", "e1", "answer: ",
        "so 1", "**a", "\n", "> ", "answer:\n|-", "Ans. ", "|", " ", "\n so 1 ",
    ],
)  # fmt: skip
def test_the_time_is_proportional_to_the_length(piece: str) -> None:
    text = piece * (2**16 // len(piece))
    canonical(text)
    stated(text)


@given(st.lists(st.fractions(-9, 9, max_denominator=9), min_size=2, max_size=5), st.booleans())
def test_a_list_is_shown_alike_with_fractions_and_decimals(
    values: list[Fraction], spaced: bool
) -> None:
    tex = (", " if spaced else ",").join(
        rf"{'-' if value < 0 else ''}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
        if value.denominator > 1
        else str(value)
        for value in values
    )
    plain = ", ".join(map(str, values))
    assert canonical(f"[{tex}]") == canonical(f"[{plain}]")


@given(st.text(st.sampled_from(r"\{}()[]$,.*^+-=<>/x1 a"), max_size=60))
def test_any_text_is_shown_without_signs_of_our_own(text: str) -> None:
    assert canonical(text).isprintable()
