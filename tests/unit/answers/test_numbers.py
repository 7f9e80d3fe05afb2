from __future__ import annotations

from fractions import Fraction

import pytest

from reward_serve_answers.numbers import Number, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(text, 18) for text in ("18", "18.", "18.00", " 18\n", "**18**", "`18`", '"18"', "$18$")],
        *[(text, 18) for text in ("\\(18\\)", "\\text{18}", "\\mathbf{18}", "{18}", "\\boxed{18}")],
        *[(text, 1800) for text in ("1,800", "1{,}800", "1\\,800", "1800", "1,800.0")],
        *[(text, -18) for text in ("-18", "- 18", "**-18**")],
        *[(text, Fraction(1, 2)) for text in (".5", "0.5", "1/2", "\\frac{1}{2}", "\\dfrac{1}{2}")],
        ("-\\frac{1}{2}", Fraction(-1, 2)),
        ("1,234,567.5", Fraction(2469135, 2)),
    ],
)
def test_a_number_is_read_exactly_in(text: str, value: int | Fraction) -> None:
    assert parse_number(text) == Number(Fraction(value))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("18%", Number(Fraction(18), percent=True)),
        ("18 percent", Number(Fraction(18), percent=True)),
        ("$18", Number(Fraction(18), unit=frozenset({"dollars"}))),
        ("-\\$18", Number(Fraction(-18), unit=frozenset({"dollars"}))),
        ("18 dollars per day", Number(Fraction(18), unit=frozenset({"dollars", "per", "day"}))),
        ("18\\text{ Pears}", Number(Fraction(18), unit=frozenset({"pears"}))),
        ("11 Mb", Number(Fraction(11), unit=frozenset({"Mb"}))),
    ],
)
def test_a_percent_sign_and_a_unit_are_noted_and_not_applied(text: str, number: Number) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17 or 18",
        "about 18",
        "> 18",
        "18k",
        "1.8 million",
        "18 pm",
        "3:30",
        "18e3",
        "9 * 2 = 18",
        "6/8",
        "1/0",
        "3 1/2",
        "1 800",
        "1,80",
        "007",
        "--18",
        "1.2.3",
        "\u0661\u0668",
        "18\u00b2",
        "18 squared",
        "18 pears and 3",
        "eighteen",
        "18 a b c d e",
    ],
)
def test_no_other_text_is_a_number(text: str) -> None:
    assert parse_number(text) is None
