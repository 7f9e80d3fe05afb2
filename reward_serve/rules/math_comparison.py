"""Runs math-verify, in a child process: importing it takes a second."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, Literal

from math_verify import (  # type: ignore[import-untyped]
    ExprExtractionConfig,
    LatexExtractionConfig,
    parse,
    verify,
)
from sympy import QQ, ZZ, Expr, Poly, PolynomialError  # type: ignore[import-untyped]
from sympy.functions.elementary.trigonometric import (  # type: ignore[import-untyped]
    TrigonometricFunction,
)

from reward_serve.rules.markers import braced
from reward_serve.rules.numbers.presence import CONVERSIONS

# As a unit, the last t of 3 + 7t would be dropped.
_CONFIG = LatexExtractionConfig()
_WITHOUT_UNITS = replace(
    _CONFIG, normalization_config=replace(_CONFIG.normalization_config, units=False)
)
# Factors that a difference in units may explain, including degrees and "in terms of pi".
_FACTORS = [*map(float, CONVERSIONS), math.pi, 180 / math.pi]
# What may be a number of more digits than anyone writes: (10^9)!, 9^{9^9}, 2^{99999}, C(10^9, 9).
_HUGE = re.compile(
    r"\d{5} ?!|\^[({ ]{0,4}\d+[)} ]*!|[({\[][^(){}a-zA-Z]{0,20}\^[^()a-zA-Z]{0,20}[)}\]] ?!"
    r"|\^[({ ]{0,4}-?\d+ ?\^|\^[({ ]{0,4}-?\d{5}"
    r"|\\[dt]?binom(?:[^\\]{0,9}\^|\D{0,9}\d{5})|(?:\([^()]{0,9}){30}|(?:\{[^{}]{0,9}){30}"
)


def compare(response: str, gold: str) -> dict[str, Any]:
    """Compare with math-verify, without its time limit, which needs signals in the main thread."""
    latex = LatexExtractionConfig()
    expected = parse(
        f"\\boxed{{{_bare(gold)}}}", [latex], fallback_mode="no_fallback", parsing_timeout=None
    )
    if not expected:
        return {"score": None, "rule": "reference_not_read", "answer": None}
    _, box, end = response.rpartition("\\boxed")
    boxed = braced(end, 0) if box else None
    if boxed and _HUGE.search(boxed[0]) and not _HUGE.search(gold):
        return {"score": None, "rule": "too_large", "answer": None}
    found = parse(response, [latex, ExprExtractionConfig()], parsing_timeout=None)
    if not found:
        return {"score": 0.0, "rule": "no_answer", "answer": None}
    right = verify(expected, found, timeout_seconds=None)
    rule = "math_equal" if right else "math_differs"
    return {"score": float(right), "rule": rule, "answer": str(found[-1])[:200]}


def compare_formulas(items: str, others: str, order: str) -> Literal["equal", "unequal", "unknown"]:
    """Compare formulas pair by pair; each line of both arguments is one.

    Args:
        items: formulas.
        others: as many formulas.
        order: empty if a formula may equal any of the others.

    Returns:
        "equal" if all pairs are; "unequal" if one pair has clearly different values.
    """
    pairs = [
        (_parsed(one), _parsed(other))
        for one, other in zip(items.split("\n"), others.split("\n"), strict=True)
    ]
    if any(one is None or other is None for one, other in pairs):
        return "unknown"
    if not order:
        return _compare_sets(*map(list, zip(*pairs, strict=True)))
    if all(verify(other, one, timeout_seconds=None) for one, other in pairs):
        return "equal"
    apart = any(_far_apart(one, other, units=len(pairs) == 1) for one, other in pairs)
    return "unequal" if apart and not _proportional(pairs) else "unknown"


def _proportional(pairs: list[tuple[Any, Any]]) -> bool:
    """Whether they may be two vectors with the same direction."""
    if len(pairs) == 1 or any(not other.is_number or other.is_zero for _, other in pairs):
        return False
    ratios = [float(one / other) for one, other in pairs if one.is_number]
    return len(ratios) == len(pairs) and max(ratios) - min(ratios) < 1e-9


def _compare_sets(items: list[Any], others: list[Any]) -> Literal["equal", "unknown"]:
    rest = list(others)
    for item in items:
        places = (at for at, other in enumerate(rest) if verify(other, item, timeout_seconds=None))
        found = next(places, None)
        if found is None:
            return "unknown"
        del rest[found]
    return "equal"


def _parsed(text: str) -> Any:
    boxed = f"\\boxed{{{text}}}"
    parsed = parse(boxed, [_WITHOUT_UNITS], fallback_mode="no_fallback", parsing_timeout=None)
    return parsed[0] if parsed and not isinstance(parsed[0], str) else None


def _far_apart(one: Any, other: Any, *, units: bool) -> bool:
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return False
    if one.free_symbols:
        return one.free_symbols == other.free_symbols and _other_polynomial(one, other)
    if one.has(TrigonometricFunction) or other.has(TrigonometricFunction):
        return False  # of degrees or radians
    values = [one.evalf(30), other.evalf(30)]
    if not all(value.is_comparable and value.is_finite for value in values):
        return False  # a name, a root of a negative number, a division by zero
    small, large = sorted(abs(float(value)) for value in values)
    gap = abs(float(values[0] - values[1]))
    turns = gap / math.tau
    if values[0] * values[1] < 0 and abs(turns - round(turns)) < 1e-9:
        return False  # -pi/6 and 11pi/6 are one angle
    near = units and any(abs(small * factor - large) * 10**6 < large for factor in _FACTORS)
    return gap * 100 >= large and not near


def _other_polynomial(one: Expr, other: Expr) -> bool:
    """Whether two polynomials differ by more than a constant summand or factor.

    5k+1 and 1-5k may be one family of integers.
    """
    try:
        polynomials = [Poly(each, *sorted(one.free_symbols, key=str)) for each in (one, other)]
    except PolynomialError:
        return False
    if any(each.get_domain() not in (ZZ, QQ) for each in polynomials):
        return False
    one, other = polynomials
    family = one.total_degree() == 1 and (one + other).total_degree() <= 0
    difference = (one - other).total_degree() > 0 and not family
    return bool(difference and one.monic() != other.monic())


def _bare(gold: str) -> str:
    text = gold.strip().strip("$").strip()
    for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
        text = text.removeprefix(opening).removesuffix(closing)
    return text.strip()


# The first comparison of a kind imports and compiles much; processes are forked after it.
for _kind in (
    "0.5",
    "2^{500}",
    r"\int_0^1 x dx",
    r"\sum_{k=1}^{9} k",
    r"\sin(3)",
    "(x+1)^3",
    r"\sqrt{3}",
):
    compare(f"\\boxed{{{_kind}}}", r"\frac{1}{2}")
