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
        ("(x + 1, 2)", "(x^2 + 1, 2)"),
        ("2x^3 + 1", "x^4"),
    ],
)
def test_a_formula_alone_is_wrong_where_it_clearly_differs(response: str, reference: str) -> None:
    assert verify(response, reference).outcome == "wrong"


@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("x^2/2 + 3x + 1", "x^2/2 + 3x"),  # antiderivatives differ by a constant
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
    assert time.perf_counter() - began < 5  # of a busy machine; a millisecond of a free one
