from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.rules.formula_text import MAX_TEXT, read_formula

SIGNS = [*"12xy+-*/^{}()[],=<. ", r"\frac", r"\sqrt", r"\pi", r"\sin", r"\{", r"\}", r"\cup"]


@pytest.mark.parametrize(
    "texts",
    [
        (r"\frac{3}{4}", r"\dfrac{3}{4}", r"\tfrac34", r"\frac3{4}", r"\frac{3}4", "3/4", "0.75"),
        (r"\frac{x}{2}", "x/2", "x / 2", "0.5x", ".5x", r"\frac12x", r"\frac{1}{2} \cdot x"),
        (r"-\frac{x}{2}", r"\frac{-x}{2}", r"\frac{x}{-2}", "-x/2", "\u2212x/2", "-0.5x"),
        ("x^2+1", "x^{2} + 1", "1 + x^2", "x\u00b2 + 1", "$x^2+1$", r"\(x^2+1\)", "**x^2+1**"),
        (r"2\sqrt{3}", r"2\sqrt3", r"2 \cdot \sqrt{3}", "2*sqrt(3)", "2\u221a3", r"\sqrt{3}*2"),
        (r"2\pi r", "2\u03c0r", "2 pi * r", r"2 \times \pi \times r"),
        ("(x+1)(x-1)", "(x-1)(x+1)", r"\left(1+x\right)\left(x-1\right)"),
        ("(1,2)", "(1, 2)", r"\left(1, 2\right)", r"(1,\,2)"),
        (r"\{1,2\}", r"\{2, 1\}", r"\left\{1, 2\right\}"),
        (r"(-\infty,0)\cup[2,\infty)", "(-\u221e, 0) \u222a [2, \u221e)"),
        ("x < 5", r"x \lt 5", "5 > x"),
        ("x <= 5", r"x \le 5", r"x \leq 5", "x \u2264 5", r"5 \geqslant x"),
        (r"\sin x", r"\sin(x)", r"\sin{x}", "sin(x)"),
        ("x - y", "-y + x"),
        (r"\frac{1}{x}", "1/x"),
    ],
)
def test_one_formula_has_one_form_in_every_notation(texts: tuple[str, ...]) -> None:
    forms = {read_formula(text) for text in texts}
    assert len(forms) == 1
    assert None not in forms


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("x^2-1", "(x-1)(x+1)"),
        ("2x+2", "2(x+1)"),
        (r"\sqrt{12}", r"2\sqrt{3}"),
        ("2x+3x", "5x"),
        ("x*x", "x^2"),
        ("x^{-1}", "1/x"),
        ("x-y", "y-x"),
        ("x/y", "y/x"),
        ("a^b", "b^a"),
        ("x^{21}", "x^2*1"),
        ("Xy+1", "xy+1"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "[1,2]"),
        ("(1,2)", "1,2"),
        ("(1,2)", r"\{1,2\}"),
        ("1,2", "2,1"),
        (r"\{1,2\}", r"\{1,1,2\}"),
        ("x < 5", "x <= 5"),
        ("x < 5", "5 < x"),
        ("x = 5", "y = 5"),
        (r"\sqrt[3]{x}", r"\sqrt{x}"),
        ("(-2)^2", "-2^2"),
    ],
)
def test_two_formulas_have_two_forms(text: str, other: str) -> None:
    forms = read_formula(text), read_formula(other)
    assert None not in forms
    assert forms[0] != forms[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "no",
        "Tom Smith",
        "A-C-B",
        "2 or 3",
        "5 is x",
        "1/2x",
        r"3\frac{1}{2}",
        "3 1/2",
        "x^23",
        "x3",
        "2 3",
        "2 * 3",
        "36/2",
        r"\frac{36}{2}",
        "17 + 1",
        "2020-1-2",
        "3/4/5",
        "x/y/z",
        "x^2^3",
        "--x",
        "018",
        "1,234",
        "(1,234)",
        "1{,}234x",
        "{1,2}",
        "1{8}",
        "2**x",
        "18%",
        r"18\%",
        "5!",
        "|x|",
        r"\pm 3",
        r"\int x",
        r"\log_2 8",
        r"\frac{1}{0}",
        r"\frac{1}{2}^2",
        r"\sin 2x",
        r"\sin xy",
        "x +",
        "(x",
        "x)",
        "(1,2)x",
        "(1,2)+1",
        "x = (1,2)",
        "\u0661x",
        "x\u2080",
        "9" * 13,
        "(" * 9 + "x+1" + ")" * 9,
        "x+" * MAX_TEXT + "1",
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_nothing_is_read_from(text: str) -> None:
    assert read_formula(text) is None


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "{",
        "[",
        "-",
        "x^{",
        r"\frac{",
        r"\frac",
        r"\sqrt{",
        r"\{",
        "9",
        "x,",
        "^",
        "1/",
        "((x+",
    ],
)
def test_hostile_text_is_read_quickly(piece: str) -> None:
    start = time.perf_counter()
    read_formula(piece * (MAX_TEXT // len(piece)))
    assert time.perf_counter() - start < 0.05


@given(st.text(max_size=MAX_TEXT + 1))
def test_any_text_is_a_formula_or_none(text: str) -> None:
    formula = read_formula(text)
    assert formula is None or formula == read_formula(text)


@given(st.lists(st.sampled_from(SIGNS), max_size=30))
def test_any_signs_are_a_formula_or_none(signs: list[str]) -> None:
    text = "".join(signs)
    assert read_formula(text) == read_formula(text.replace(" ", "  "))
