"""Formulas: sums of terms such as polynomials, surds, multiples of pi, and complex numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer

_SQUAREFREE = (2, 3, 5, 6, 7, 10, 11, 13, 15)
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_FUNCTIONS = ("sin", "cos", "ln", "e", "tan")

Atom = tuple[str, int]
"""A variable and its exponent, ``sqrt`` and its radicand, a function and its factor; ("", 0): 1."""
_ONE: Atom = ("", 0)


@dataclass(frozen=True, slots=True)
class Formula(Answer):
    """A sum of different atoms with coefficients other than 0.

    Attributes:
        terms: coefficient of each atom.
        name: the variable.
        roots: integers at which a quadratic is 0, if it has them.
    """

    kind: ClassVar[str] = "formula"
    terms: frozenset[tuple[Atom, Fraction]]
    name: str = "x"

    @classmethod
    def invented(cls, rng: Random) -> Formula:
        """A polynomial (sometimes one with integer roots), surd, multiple of pi, or similar."""
        chance, name = rng.random(), rng.choice("xxxxntyab")
        if chance < 0.15:
            first, second = rng.randint(-7, 9), rng.randint(-7, 9)
            return _of({(name, 2): 1, (name, 1): -first - second, _ONE: first * second}, name)
        if chance < 0.45:
            powers = rng.sample(range(5), rng.choice((2, 2, 3, 3, 4)))
            atoms = [(name, power) if power else _ONE for power in powers]
        elif chance < 0.70:
            atoms = [("sqrt", rng.choice(_SQUAREFREE))] + [_ONE] * (rng.random() < 0.5)
        elif chance < 0.80:
            atoms = [("pi", 1)] + [_ONE] * (rng.random() < 0.3)
        elif chance < 0.88:
            atoms = [("i", 1), _ONE]
        else:
            atoms = [(rng.choice(_FUNCTIONS), rng.randint(1, 6)), rng.choice((_ONE, (name, 1)))]
        return _of({atom: _coefficient(rng) for atom in atoms}, name)

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        text = self._factored(rng, tex) if rng.random() < 0.35 else None
        text = text or self._sum(rng, tex)
        if rng.random() < 0.12 and any(atom[0] == self.name for atom, _ in self.terms):
            form = rng.choice(("y = {}", "f({}) = {}", "f({})={}"))
            return form.format(*([self.name, text] if "f(" in form else [text]))
        return text

    @override
    def reference(self, rng: Random) -> str:
        return self._sum(rng, tex=rng.random() < 0.6, ordered=True)

    def _sum(self, rng: Random, tex: bool, ordered: bool = False) -> str:
        terms = sorted(self.terms, key=lambda term: (term[0] == _ONE, -term[0][1], term[0][0]))
        if not ordered and rng.random() < 0.3:
            rng.shuffle(terms)
        bottom = max(coefficient.denominator for _, coefficient in terms)
        style = rng.choice(("^", "^", "**", "²"))
        if bottom > 1 and rng.random() < 0.4:
            whole = [(atom, coefficient * bottom) for atom, coefficient in terms]
            if all(coefficient.denominator == 1 for _, coefficient in whole):
                top = _joined([_term(*term, tex, style) for term in whole])
                if tex:
                    return rf"\frac{{{top}}}{{{bottom}}}"
                return f"({top})/{bottom}" if len(whole) > 1 else f"{top}/{bottom}"
        text = _joined([_term(*term, tex, style) for term in terms])
        return text.replace(" ", "") if rng.random() < 0.3 and r"\pi" not in text else text

    def _factored(self, rng: Random, tex: bool) -> str | None:
        """(x - 1)(x + 2), if the formula is a quadratic with integer roots."""
        of = dict(self.terms)
        if of.get((self.name, 2)) != 1 or not of.keys() <= {(self.name, 2), (self.name, 1), _ONE}:
            return None
        b, c = of.get((self.name, 1), Fraction(0)), of.get(_ONE, Fraction(0))
        square = b * b - 4 * c
        if square < 0 or square.denominator != 1 or isqrt(int(square)) ** 2 != square:
            return None
        roots = [(-b + sign * isqrt(int(square))) / 2 for sign in (1, -1)]
        if any(root.denominator != 1 for root in roots):
            return None
        rng.shuffle(roots)
        factors = [
            f"({self.name} {'-' if r > 0 else '+'} {abs(r)})" if r else self.name for r in roots
        ]
        if roots[0] == roots[1] and roots[0]:
            return f"{factors[0]}^2"
        return rng.choice(("", "", r" \cdot " if tex else "*")).join(sorted(factors, key=len))

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Formula | None:
        terms = sorted(self.terms)
        at, chance = rng.randrange(len(terms)), rng.random()
        atom, coefficient = terms.pop(at)
        if chance < 0.30:
            coefficient = -coefficient
        elif chance < 0.5:
            coefficient += rng.choice((-1, 1))
        elif chance < 0.6:
            coefficient = rng.choice((coefficient / 10, coefficient * 2, 1 / coefficient))
        elif chance < 0.75 and atom != _ONE:
            atom = _ONE if atom == (self.name, 0) else (atom[0], atom[1] + rng.choice((-1, 1, 2)))
        elif chance < 0.85 and len(terms) > 0:
            coefficient = Fraction(0)
        elif chance < 0.9:
            swapped = self.name.swapcase() if rng.random() < 0.5 else rng.choice("xyzt")
            return self._renamed(swapped)
        else:
            terms.append((("i", 1) if rng.random() < 0.2 else _ONE, _coefficient(rng)))
        terms.append((atom, coefficient))
        new = dict(terms)
        return _of(new, self.name) if len(new) == len(terms) and _sound(new) else None

    def _renamed(self, name: str) -> Formula | None:
        if not any(atom[0] == self.name for atom, _ in self.terms):
            return None
        terms = {((name, a[1]) if a[0] == self.name else a): c for a, c in self.terms}
        return _of(terms, name) if name != "i" else None


def _of(terms: dict[Atom, Fraction] | dict[Atom, int], name: str) -> Formula:
    return Formula(frozenset((a, Fraction(c)) for a, c in terms.items() if c), name)


def _sound(terms: dict[Atom, Fraction]) -> bool:
    """Whether no two formulas of such terms are equal by value."""
    kept = [atom for atom, coefficient in terms.items() if coefficient]
    radicands = all(value in _SQUAREFREE for name, value in kept if name == "sqrt")
    return (
        bool(kept)
        and radicands
        and all(
            value == 1 if name in ("pi", "i") else value > 0 or name == "" for name, value in kept
        )
    )


def _coefficient(rng: Random) -> Fraction:
    whole = rng.choice((1, 1, -1, *range(2, 10), *range(-5, -1), rng.randint(10, 60)))
    return Fraction(whole, rng.choice((1, 1, 1, 1, 2, 3, 4)))


def _joined(terms: Sequence[str]) -> str:
    first, *others = terms
    rest = "".join(f" - {term[1:]}" if term[0] == "-" else f" + {term}" for term in others)
    return first + rest


def _term(atom: Atom, coefficient: Fraction, tex: bool, style: str) -> str:
    sign = "-" if coefficient < 0 else ""
    top, bottom = abs(coefficient.numerator), coefficient.denominator
    text = _atom(atom, tex, style)
    if not text:
        if bottom == 1:
            return f"{sign}{top}"
        return rf"{sign}\frac{{{top}}}{{{bottom}}}" if tex else f"{sign}{top}/{bottom}"
    # 2x, 2*x or 2*sin(x).
    times = "*" if not tex and (style == "**" or re.match("[a-z]{2}", text)) else ""
    product = text if top == 1 else f"{top}{times}{text}"
    if bottom == 1:
        return sign + product
    return rf"{sign}\frac{{{product}}}{{{bottom}}}" if tex else f"{sign}{product}/{bottom}"


def _atom(atom: Atom, tex: bool, style: str) -> str:
    name, value = atom
    if name == "":
        return ""
    if name == "sqrt":
        plain = f"√{value}" if style == "²" else f"sqrt({value})"
        return rf"\sqrt{{{value}}}" if tex else plain
    if name == "pi":
        return r"\pi" if tex else ("π" if style != "**" else "pi")
    factor = "" if value == 1 else str(value)
    if name == "e":
        exponent = f"{factor}x"
        return f"e^{{{exponent}}}" if tex else f"e^({exponent})" if factor else "e^x"
    if name in _FUNCTIONS:
        return rf"\{name}({factor}x)" if tex else f"{name}({factor}x)"
    if value == 1:
        return name
    if style == "²" and not tex:
        return name + str(value).translate(_RAISED)
    if style == "**" and not tex:
        return f"{name}**{value}"
    return f"{name}^{{{value}}}" if tex and (value > 9 or style == "**") else f"{name}^{value}"
