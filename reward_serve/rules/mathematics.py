r"""Compare an answer with a reference that is not a plain number.

Formulas with the same canonical form are equal. Amounts with different forms are equal only if the
answer is simplified: `\sqrt{12}` is not accepted for `2\sqrt{3}`, nor `(x - 1)(x + 1)` for
`x^2 - 1`, since the answer may repeat the task. Only amounts are ever found unequal.

    compare_formulas(r"\dfrac{x}{2}", "0.5x")          # "equal"
    compare_formulas(r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}")  # "equal"
    compare_formulas(r"\sqrt{5}", r"2\sqrt{3}")        # "unequal"
"""

from __future__ import annotations

import functools
import logging
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from reward_serve.rules.formula_text import read_formula
from reward_serve.rules.formulas import (
    Constant,
    Formula,
    Name,
    Power,
    Product,
    Relation,
    Root,
    Sum,
)
from reward_serve.rules.numbers.presence import CONVERSIONS
from reward_serve.rules.numbers.words import CENTS, MODIFIER_WORDS, NUMBER_WORDS, UNIT_DOUBTS

if TYPE_CHECKING:
    from sympy import Expr  # type: ignore[import-untyped]

MAX_TEXT = 150
MAX_EXPONENT = 20
MAX_RADICAND = 10_000

_UNIT = re.compile(
    r"(?:\\[,;: ]|\s)*\\(?:text|textrm|mathrm|mbox)\s?\{([a-z .]{1,40})\}(?:\^(?:[23]|\{[23]\}))?$"
)
_NO_UNITS = UNIT_DOUBTS | MODIFIER_WORDS | NUMBER_WORDS | CENTS
_PI = Name(r"\pi")
_SQUARES = [root * root for root in range(2, int(MAX_RADICAND**0.5) + 1)]
# Factors that a difference in units may explain, including degrees and "in terms of pi".
_FACTORS = [*map(float, CONVERSIONS), math.pi, 180 / math.pi]


def compare_formulas(answer: str, reference: str) -> Literal["equal", "unequal", "unknown"]:
    r"""Compare two texts as formulas.

    Args:
        answer: The text after a final-answer marker.
        reference: The gold answer.

    Returns:
        "equal" if they are the same formula in any notation, or the same amount and the answer is
        simplified; "unequal" if both are amounts that clearly differ; otherwise "unknown".
    """
    found, gold = _read(answer), _read(reference)
    if found is None or gold is None:
        return "unknown"
    if found == gold or _unnamed(found, gold) == _unnamed(gold, found):
        return "equal"
    return _compare_amounts(found, _unnamed(gold, found))


def _read(text: str) -> Formula | None:
    if len(text) > MAX_TEXT:
        return None
    text = text.strip().rstrip(".").removeprefix("**").removesuffix("**")
    text = text.strip("$ \n").rstrip(". ")
    unit = _UNIT.search(text)
    if unit is None:
        return read_formula(text)
    words = unit[1].replace(".", " ").split()
    if not _NO_UNITS.isdisjoint(words) or any(len(word) == 1 for word in words):
        return None
    return read_formula(text[: unit.start()])


def _unnamed(formula: Formula, other: Formula) -> Formula:
    """Return the right side of "y = 2x" if `other` is not an equation."""
    if isinstance(other, Relation) or not isinstance(formula, Relation):
        return formula
    name, *values = formula.sides
    if formula.signs != ("=",) or not isinstance(name, Name) or repr(name) in repr(values):
        return formula
    return values[0]


def _compare_amounts(found: Formula, gold: Formula) -> Literal["equal", "unequal", "unknown"]:
    if not (_is_amount(found) and _is_amount(gold)):
        return "unknown"
    one, other = _to_sympy(found), _to_sympy(gold)
    values = [one.evalf(50), other.evalf(50), (one - other).evalf(50)]
    if not all(value.is_comparable for value in values):
        return "unknown"  # a root of a negative number, a division by zero
    gap, (small, large) = abs(values[2]), sorted(map(abs, values[:2]))
    if gap * 10**40 <= large:
        same = _is_finished(found) and _math_verify()(other, one)
        return "equal" if same else "unknown"
    if gap * 100 < large or any(abs(small * factor - large) * 10**6 < large for factor in _FACTORS):
        return "unknown"
    return "unequal"


def _is_amount(formula: Formula, *, powers: bool = True) -> bool:
    """Whether a formula has a value that is cheap to compute."""
    match formula:
        case Constant():
            return True
        case Name():
            return formula == _PI
        case Sum(terms):
            return all(_is_amount(term, powers=powers) for term in terms)
        case Product(_, factors, divisors):
            return all(_is_amount(factor, powers=powers) for factor in (*factors, *divisors))
        case Root(_, radicand):
            return _is_amount(radicand, powers=False)
        case Power(base, Constant(exponent)):
            small = exponent.denominator == 1 and abs(exponent) <= MAX_EXPONENT
            return powers and small and _is_amount(base, powers=False)
    return False


def _is_finished(formula: Formula) -> bool:
    """Whether an amount is simplified: a number, optionally times a reduced square root and pi."""
    product = formula if isinstance(formula, Product) else Product(Fraction(1), (formula,))
    roots = [factor for factor in product.factors if isinstance(factor, Root)]
    rest = [factor for factor in product.factors if factor not in roots]
    if isinstance(formula, Constant):
        return True
    if product.divisors or len(roots) > 1 or rest not in ([], [_PI]):
        return False
    return all(root.degree == 2 and _is_square_free(root.radicand) for root in roots)


def _is_square_free(radicand: Formula) -> bool:
    if not isinstance(radicand, Constant) or radicand.value.denominator > 1:
        return False
    number = int(radicand.value)
    return 1 < number <= MAX_RADICAND and all(number % square for square in _SQUARES)


def _to_sympy(formula: Formula) -> Expr:
    from sympy import Add, Mul, Pow, Rational, pi

    match formula:
        case Constant(value):
            return Rational(value.numerator, value.denominator)
        case Sum(terms):
            return Add(*map(_to_sympy, terms))
        case Product(coefficient, factors, divisors):
            above, below = map(_to_sympy, factors), map(_to_sympy, divisors)
            return _to_sympy(Constant(coefficient)) * Mul(*above) / Mul(*below)
        case Power(base, exponent):
            return Pow(_to_sympy(base), _to_sympy(exponent))
        case Root(degree, radicand):
            return Pow(_to_sympy(radicand), Rational(1, degree))
    return pi


@functools.cache
def _math_verify() -> Callable[[Expr, Expr], bool]:
    # It warns on every import that its time limit is off. The limit needs signals, which only the
    # main thread receives.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    from math_verify import verify  # type: ignore[import-untyped]

    return functools.partial(verify, timeout_seconds=None)
