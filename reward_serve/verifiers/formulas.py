r"""Formulas as values, in a form that notation leaves no trace in.

`\dfrac{x}{2}`, `x / 2` and `0.5x` have one form, and so have `1 + x^2` and `x^2+1`. Nothing is
computed: `x^2 - 1` and `(x - 1)(x + 1)` have two, and so have `\sqrt{12}` and `2\sqrt{3}`, since a
policy that hands the task back as its answer has not answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


class UnreadError(Exception):
    """A formula that can be read in two ways or leaves arithmetic in figures undone."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number written in digits; 3/4 and 0.75 are one."""

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
    """A coefficient, and in a canonical order what is multiplied and what divides."""

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
    """The root of a degree."""

    degree: int
    radicand: Formula


@dataclass(frozen=True, slots=True)
class Call:
    """A function's value."""

    function: str
    argument: Formula


@dataclass(frozen=True, slots=True)
class Relation:
    """Sides with signs between them; ">" is turned round."""

    signs: tuple[str, ...]
    sides: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Items in brackets (a point, an interval, a set) or, with none, a list or a union."""

    brackets: str
    items: tuple[Formula, ...]


Formula = Constant | Name | Sum | Product | Power | Root | Call | Relation | Group


def ordered(items: list[Formula]) -> tuple[Formula, ...]:
    """Return terms, factors or members in their canonical order.

    Raises:
        UnreadError: One is no value (an interval, an equation).
    """
    if any(isinstance(item, Group | Relation) for item in items):
        raise UnreadError
    return tuple(sorted(items, key=repr))


def product(factors: list[Formula], divisors: list[Formula], *, negative: bool) -> Formula:
    """Return what `factors` over `divisors` are.

    Raises:
        UnreadError: Figures are left to multiply or divide ("2 * 3x", "36/2"), or divided by 0.
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
