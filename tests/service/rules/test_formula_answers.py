r"""Responses that are a formula, with a marker or alone; math-verify is asked for real."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_serve.rules import final_answer, verify, verify_strict_any
from tests.unit.rules.test_properties import texts


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        (r"\(4x - 5 + \frac{x^{2}}{10}\)", "x^2/10+4x-5"),
        ("x**4+2*x**3", "x**4 + 2*x**3"),
        ("(3,-4)", "(3, -4)"),
        ("y = 2x", "2x"),
        ("5√2", r"5\sqrt{2}"),
        (r"\boxed{(t + 1)(t - 1)}", "(t - 1)(t + 1)"),
    ],
)
def test_a_formula_alone_is_right_where_it_equals_the_reference(
    response: str, reference: str
) -> None:
    assert verify(response, reference).outcome == "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("[24,35]", "[24, 34]"),
        (r"\sqrt{5}", r"2\sqrt{3}"),
        ("x**4+2*x**3", "x**4 + 3*x**3"),
        ("#### -2x^2 - 2x", "-2x^2 + 2x"),
        ("2x^3 + 1", "x^4"),
        ("-b^2 - 16", "b^2 - 16"),
    ],
)
def test_a_formula_alone_is_wrong_where_it_clearly_differs(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "wrong"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("x^2/2 + 3x + 1", "x^2/2 + 3x"),  # antiderivatives differ by a constant
        ("1 - 5k", "5k + 1"),  # integers with a remainder
        ("2x + 2y", "x + y"),  # as do the sides of an equation, by a factor
        ("x + y", "x + z"),
        ("So we get x + 1.", "x + 2"),
        ("1/2x", "x/2"),
        ("{1,2}", r"\{1,2\}"),
        ("x + 1 or x - 1", "x + 1"),
        ("2, 1", "1, 2"),
        ("-5*sqrt(6)/4\n-\\frac{5\\sqrt{6}}{4}", r"-\frac{5\sqrt{6}}{4}"),  # not their product
    ],
)
def test_what_may_be_meant_otherwise_is_left_to_the_judge(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


coefficients = st.lists(st.integers(-9, 9).filter(bool), min_size=2, max_size=3)


@settings(max_examples=25)
@given(coefficients, coefficients, st.sampled_from(["{}", "#### {}", r"\boxed{{{}}}", "${}$"]))
def test_polynomials_are_told_apart_and_not_only_by_their_text(
    one: list[int], other: list[int], form: str
) -> None:
    def written(factors: list[int], ascending: bool) -> str:
        terms = [f"{factor:+}x^{power}" for power, factor in enumerate(factors, start=2)]
        return "".join(terms if ascending else terms[::-1]).removeprefix("+")

    grade = verify(form.format(written(one, True)), written(other, False))
    expected = ("right",) if one == other else ("wrong", "abstain")
    assert grade.outcome in expected


@given(texts, texts.filter(lambda text: final_answer(text).strip() != ""))
def test_any_text_is_verified_without_a_fault_and_at_once(response: str, reference: str) -> None:
    began = time.perf_counter()
    for verification in (verify(response, reference), verify_strict_any(response, [reference])):
        assert verification.outcome in {"right", "wrong", "abstain"}
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("\\boxed{(x+1)^2}", "x^2+2x+1"),
        ("\\boxed{x^2+2x+1}", "(x+1)^2"),
        ("\\boxed{(x-1)^2+2}", "x^2-2x+3"),
        ("\\boxed{2x+3x}", "5x"),
        ("\\boxed{(3x+2)+(x-5)}", "4x-3"),
        ("\\boxed{x^2 \\cdot x^3}", "x^5"),
        ("\\boxed{\\frac{x^2-1}{x-1}}", "x+1"),
        ("\\boxed{\\frac{6x}{2}}", "3x"),
        ("\\boxed{(2x)^3}", "8x^3"),
        ("\\boxed{\\sqrt2\\sqrt3}", "\\sqrt6"),
        ("\\boxed{\\ln 2+\\ln 3}", "\\ln 6"),
        ("\\boxed{2^{3}\\cdot2^{4}}", "2^7"),
        ("\\boxed{\\frac{\\pi}{2}+\\frac{\\pi}{3}}", "\\frac{5\\pi}{6}"),
        ("\\boxed{2x+3y=6}", "y=-\\frac23x+2"),
        ("\\boxed{f=ma}", "a=\\frac{f}{m}"),
        ("\\boxed{x=\\frac{y-1}{2}}", "y=2x+1"),
        ("\\boxed{x^2+y^2-6x=0}", "(x-3)^2+y^2=9"),
        ("\\boxed{x+3>5}", "x>2"),
        ("\\boxed{1.4.0}", "1.5.0"),
        ("\\boxed{3.1.2}", "3.10.2"),
        ("#### 100.0.0.1", "10.0.0.1"),
        ("#### 1/1/2020", "2/2/2020"),
        ("#### 5/6/7", "5/7/6"),
        ("\\boxed{(12)(23)}", "(23)(12)"),
        ("#### 101", "0101"),
        ("#### 7", "007"),
        ("\\boxed{36\\pi\\text{ cm}^3}", "36\\pi\\text{ cm}^2"),
        ("#### 5 mm", "5 m"),
        ("#### 1.50e5", "1.25e6"),
        ("\\boxed{y=x2}", "y=2x"),
        ("\\boxed{f(2)=3}", "f(3)=2"),
        ("\\boxed{P(3)=\\frac{7}{5}}", "P(3)=\\frac{2}{5}"),
        ("\\boxed{g(1)=2, g(2)=1}", "g(1)=1, g(2)=2"),
    ],
)
def test_a_task_a_version_or_a_permutation_is_not_proven_right(
    response: str, reference: str
) -> None:
    assert verify(response, reference).outcome != "right"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("#### 12/25/23", "12/25/2023"),
        ("#### 25/12/2023", "12/25/2023"),
        ("\\boxed{(231)}", "(123)"),
        ("#### 3.1.18", "1.3.2018"),
        ("\\boxed{[-3,2]}", "[2,-3]"),
        ("\\boxed{(5,12,13)}", "(12,5,13)"),
        ("\\boxed{(2,4,6)}", "(1,2,3)"),
        ("\\boxed{(2,60)}", "(2,\\frac{\\pi}{3})"),
        ("\\boxed{(1+2t,4t)}", "(1+t,2t)"),
        ("\\boxed{(3, 4, 0.5)}", "(4,3,1/2)"),
        ("\\boxed{(2, 2, 4)}", "(2,4,2)"),
        ("\\boxed{[0.5, 2]}", "[2, 1/2]"),
        ("#### 2.5e-3", "0.25e-2"),
        ("\\boxed{\\sin 30}", "\\sin\\frac{\\pi}{6}"),
        ("\\boxed{-\\frac{\\pi}{6}}", "\\frac{11\\pi}{6}"),
        ("\\boxed{330^\\circ}", "-30"),
        ("#### -97\u00b0", "263"),
    ],
)
def test_a_date_a_cycle_or_a_vector_is_not_disproven(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "abstain"


@pytest.mark.parametrize(
    ("response", "reference", "outcome"),
    [
        ("\\boxed{x^2+2x+1}", "x^2+2x+1", "right"),
        ("\\boxed{2x+1=y}", "y=2x+1", "right"),
        ("\\boxed{\\dfrac{x}{2}}", "0.5x", "right"),
        ("\\boxed{1+2x+x^2}", "x^2+2x+1", "right"),
        ("\\boxed{\\frac{1}{\\sqrt{3}}}", "\\frac{\\sqrt{3}}{3}", "right"),
        ("\\boxed{x>2}", "2<x", "right"),
        ("\\boxed{\\frac{x-1}{2}}", "\\frac{x}{2}-\\frac{1}{2}", "right"),
        ("\\boxed{(1,2)}", "(1,2)", "right"),
        ("\\boxed{[1,2]}", "[1, 2]", "right"),
        ("\\boxed{(3,4)}", "(3,-4)", "wrong"),
        ("\\boxed{3x}", "5x^2", "wrong"),
        ("\\boxed{x^2+1}", "x^3+2x+1", "wrong"),
        ("\\boxed{\\sqrt{5}}", "2\\sqrt{3}", "wrong"),
    ],
)
def test_another_order_or_notation_changes_nothing(
    response: str, reference: str, outcome: str
) -> None:
    assert verify(response, reference).outcome == outcome


@pytest.mark.parametrize("name", "cdghlmost")
def test_a_name_at_the_end_is_not_read_as_a_unit(name: str) -> None:
    response = f"#### 3 + 4{name}^2 + 7{name}"
    assert verify(response, f"4{name}^2 + 7{name} + 3").outcome == "right"
    assert verify(response, f"4{name}^2 + 7{name}^3 + 3").outcome == "wrong"
    fraction = f"\\frac{{1}}{{2}} - {name}"
    assert verify(fraction, f"-\\frac{{1}}{{2}} + {name}").outcome == "abstain"


@pytest.mark.parametrize(
    "form", ["$\\boxed{{{}}}$ hours", "In hours, \\boxed{{{}}}", "\\boxed{{{}}}\\text{{ hours}}"]
)
def test_a_formula_has_the_unit_that_stands_outside_of_its_box(form: str) -> None:
    response = form.format("2\\sqrt{3}")
    assert verify(response, "2\\sqrt{3}\\text{ minutes}").outcome == "abstain"
    assert verify(response, "2\\sqrt{3}\\text{ hours}").outcome == "right"
    assert verify(response, "2\\sqrt{3}").outcome == "right"
    assert verify(response, "2\\sqrt{5}").outcome == "wrong"
