from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve_judge.canonical import canonical


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("eighteen", "18"),
        ("one hundred and twenty-five", "125"),
        ("one thousand, eight hundred", "1800"),
        ("seven and a half", "7.5"),
        ("eighteen point five", "18.5"),
        ("five eighths", "0.625"),
        ("two thirds", "0.666667"),
        ("1,800", "1800"),
        ("1,234,567.80", "1234567.8"),
        ("14 400", "14400"),
        (r"1{,}800", "1800"),
        ("18,5 Euro", "18.5 Euro"),
        ("1.250,00 €", "1250"),
        (".5", "0.5"),
        ("18.00", "18"),
        ("$18.00", "18"),
        ("-$7", "-7"),
        ("18€", "18"),
        ("18 dollars and 5 cents", "18.05 dollars"),
        ("18,-", "18"),
        ("18k", "18000"),
        ("84 basis points", "0.0084"),
        ("24 score, a score of 18", "480, a score of 18"),
        ("3 parts per thousand", "0.003"),
        ("1.2 million", "1200000"),
        ("1.8e4", "18000"),
        (r"1.8 \times 10^{4}", "18000"),
        ("3/4", "0.75"),
        ("3 1/2", "3.5"),
        ("3½ cups", "3.5 cups"),
        (r"\boxed{\dfrac{3}{4}}", r"\boxed{0.75}"),
        (r"2\frac{1}{2}", "2.5"),
        (r"\text{eighteen}", "18"),
        ("18 %", "18%"),
        (r"18\%", "18%"),
        ("minus three", "-3"),
        ("−18", "-18"),
        ("１８", "18"),
        ("1\u200b8", "18"),
        ("+18", "18"),
        ("It is 18°.", "It is 18 degrees."),
        (r"$18^{\circ}$C", "18 degrees$C"),
        ("$18/hr", "18 per hr"),
        ("18pcs", "18 pcs"),
        ("-18,5 Grad", "-18.5 Grad"),
        ("(3, +5)", "(3, 5)"),
        (r"\frac{7}{-4}", "-1.75"),
        (r"-\frac{-7}{4}", "1.75"),
        ("10³", "1000"),
        (r"5 \cdot 10^2", "500"),
    ],
)
def test_a_number_is_shown_in_plain_digits(written: str, shown: str) -> None:
    assert canonical(written) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "18 +3",
        "on the 18th",
        "36/x",
        "#### 18",
        "18 to 20",
        "36/2 = 18",  # arithmetic is for the reader
        "3 x 10 = 30",
        "1/2/2020",
        "10:05",
        "007",
        "version 1.2.3",
        "someone, stone and phones",
        "1/0",
        "9" * 500 + " thousand",
        "</response>",
        "-2,1",
        "the roots are 1,2 and 3",
        "2k+1",
        "2/ln(x)",
        r"3-\frac{-7}{4}",
        r"3 \cdot 4",
    ],
)
def test_text_that_is_no_single_number_is_kept(text: str) -> None:
    assert canonical(text) == text


def test_words_that_are_no_one_number_are_several() -> None:
    assert canonical("five, six and seven or twenty twelve") == "5, 6 and 7 or 20 12"
    assert canonical("One Hundred And Five And Twenty") == "105 And 20"


def test_it_changes_nothing_a_second_time_and_no_line_by_another() -> None:
    line = "So \\$1{,}800.50, 3½ or minus seven of 18k, two thirds and 1/2/2020 in ten percent\n"
    assert canonical(canonical(line)) == canonical(line)
    assert canonical(line * 5_000) == canonical(line) * 5_000
    assert len(canonical("½" * 100_000)) == 300_000, "a text without a break is rewritten too"


integers = st.integers(-99, 99)
PAIRS = (
    "({},{})",
    "[{},{}]",
    "[{},{})",
    "({},{}]",
    "{{{},{}}}",
    r"\{{{},{}\}}",
    r"\left({},{}\right]",
)


@given(
    st.sampled_from(PAIRS), integers, integers, st.sampled_from(["{}", "x = {}.", r"\boxed{{{}}}"])
)
def test_two_numbers_in_brackets_stay_two(pair: str, one: int, two: int, around: str) -> None:
    text = around.format(pair.format(one, two))
    plain = re.sub(r"\\left|\\right|\\(?=[{}])", "", pair).replace(",", ", ")
    inner = sorted((one, two)) if plain.startswith("{{") else (one, two)  # a set has no order
    assert canonical(text) == around.format(plain.format(*inner))


@given(st.integers(2, 9), st.integers(1, 99), st.sampled_from("+-"), st.sampled_from("kx"))
def test_a_term_of_a_sum_keeps_its_variable(factor: int, other: int, sign: str, name: str) -> None:
    shown = canonical(f"{other} {sign} {factor}{name}")
    assert shown == f"{sign}{factor}{name}+{other}".removeprefix("+")
    assert canonical(f"{factor}{name}{sign}{other}") == f"{factor}{name}{sign}{other}"


@given(st.integers(1, 99), st.integers(1, 9), st.sampled_from(["x", "×", r"\times", r"\cdot", "·"]))
def test_a_power_of_ten_is_its_number(factor: int, exponent: int, sign: str) -> None:
    raised = str(exponent).translate(str.maketrans("123456789", "¹²³⁴⁵⁶⁷⁸⁹"))
    for power in (f"10^{exponent}", f"10^{{{exponent}}}", f"10{raised}"):
        assert canonical(power) == str(10**exponent)
        assert canonical(f"{factor} {sign} {power}") == str(factor * 10**exponent)
