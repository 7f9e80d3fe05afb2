r"""Formulas in a canonical form that is independent of notation.

`\dfrac{x}{2}`, `x / 2` and `0.5x` have the same form, as do `1 + x^2` and `x^2+1`. Nothing is
evaluated: `x^2 - 1` and `(x - 1)(x + 1)` differ, as do `\sqrt{12}` and `2\sqrt{3}`, because a
policy must not earn a reward by repeating the task as its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


class UnreadError(Exception):
    """The formula is ambiguous or contains unevaluated arithmetic."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number written in digits; 3/4 and 0.75 are the same."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Name:
    r"""A variable, `\pi` or `\infty`."""

    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms in a canonical order."""

    terms: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A coefficient, and factors and divisors in a canonical order."""

    coefficient: Fraction
    factors: tuple[Formula, ...]
    divisors: tuple[Formula, ...] = ()


@dataclass(frozen=True, slots=True)
class Power:
    """A base and its exponent."""

    base: Formula
    exponent: Formula


@dataclass(frozen=True, slots=True)
class Root:
    """A root and its degree."""

    degree: int
    radicand: Formula


@dataclass(frozen=True, slots=True)
class Call:
    """A function applied to an argument."""

    function: str
    argument: Formula


@dataclass(frozen=True, slots=True)
class Relation:
    """Sides with signs between them; ">" is rewritten as "<"."""

    signs: tuple[str, ...]
    sides: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Items in brackets (a point, an interval, a set) or, without brackets, a list or a union."""

    brackets: str
    items: tuple[Formula, ...]


Formula = Constant | Name | Sum | Product | Power | Root | Call | Relation | Group


def ordered(items: list[Formula]) -> tuple[Formula, ...]:
    """Return terms, factors or members in their canonical order.

    Raises:
        UnreadError: One is not a value (an interval, an equation).
    """
    if any(isinstance(item, Group | Relation) for item in items):
        raise UnreadError
    return tuple(sorted(items, key=repr))


def product(factors: list[Formula], divisors: list[Formula], *, negative: bool) -> Formula:
    """Return the quotient of `factors` and `divisors`.

    Raises:
        UnreadError: It contains unevaluated arithmetic ("2 * 3x", "36/2") or divides by 0.
    """
    if len(factors) == 1 and not divisors and not negative:
        return factors[0]
    tops, above, below = _parts(factors)
    bottoms, beneath, raised = _parts(divisors)
    coefficient = _coefficient([*tops, *([Fraction(-1)] if negative else [])], bottoms)
    above, below = above + raised, below + beneath
    if not above and not below:
        return Constant(coefficient)
    if coefficient == 1 and len(above) == 1 and not below:
        return above[0]
    return Product(coefficient, ordered(above), ordered(below))


def _parts(factors: list[Formula]) -> tuple[list[Fraction], list[Formula], list[Formula]]:
    numbers: list[Fraction] = []
    above: list[Formula] = []
    below: list[Formula] = []
    for factor in factors:
        if isinstance(factor, Constant):
            numbers.append(factor.value)
        elif isinstance(factor, Product):
            numbers.append(factor.coefficient)
            above += factor.factors
            below += factor.divisors
        else:
            above.append(factor)
    return numbers, above, below


def _coefficient(tops: list[Fraction], bottoms: list[Fraction]) -> Fraction:
    signs = [number for number in (*tops, *bottoms) if number < 0]
    sizes = [abs(number) for number in tops if abs(number) != 1]
    divisors = [abs(number) for number in bottoms if abs(number) != 1]
    if len(signs) > 1 or len(sizes) > 1 or len(divisors) > 1 or 0 in divisors:
        raise UnreadError  # 2 * 3x
    top, bottom = (*sizes, Fraction(1))[0], (*divisors, Fraction(1))[0]
    if divisors and (top.denominator > 1 or bottom.denominator > 1 or top % bottom == 0):
        raise UnreadError  # 36/2
    return (-1 if signs else 1) * top / bottom
