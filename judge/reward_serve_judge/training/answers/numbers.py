"""Numbers, and numbers close to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import ClassVar

from typing_extensions import override

from reward_serve_judge.training.answers import numerals
from reward_serve_judge.training.answers.base import Answer

_SLIPS = (Fraction(1, 10), 10, Fraction(1, 100), 100, 1000, Fraction(1, 1000))
_RUN = re.compile(r"\d+(?:\.\d+)?")
_NUMERAL = re.compile(r"(?<![\w.])\$?(\d[\d,]*(?:\.\d+)?)(?![\w%])")


@dataclass(frozen=True, slots=True)
class Number(Answer):
    """A number, and whether it is a percentage."""

    kind: ClassVar[str] = "number"
    number: Fraction
    percent: bool = False

    @property
    def whole(self) -> bool:
        """Whether it has no fractional part."""
        return self.number.denominator == 1

    @property
    def decimal(self) -> str | None:
        """In decimal digits; None if it needs more than four decimals."""
        return numerals.decimal(self.number)

    def digits(self, rng: Random) -> str:
        """In digits, without a percent sign: 1800, 1,800, 18.5, 3/4, -7."""
        return numerals.digits(self.number, rng)

    @override
    def plain(self, rng: Random) -> str:
        return self.digits(rng) + ("%" if self.percent else "")

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        return numerals.written(self.number, self.percent, rng, tex, lang)

    @override
    def reference(self, rng: Random) -> str:
        text = numerals.digits(self.number, rng, commas=0.5)
        top, bottom = self.number.numerator, self.number.denominator
        if 1 < bottom <= 12 and rng.random() < 0.5:
            sign, top = ("-", -top) if top < 0 else ("", top)
            slashed = f"{sign}{top}/{bottom}"
            text = slashed if rng.random() < 0.7 else rf"{sign}\frac{{{top}}}{{{bottom}}}"
        if self.percent:
            return text + "%"
        return f"${text}" if self.number > 0 and rng.random() < 0.04 else text

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Number | None:
        return _miss(self, rng, others)


def parse(text: str) -> Number:
    """The value of a GSM8K answer.

    Raises:
        ValueError: the text is not a number.
    """
    plain = text.strip().replace(",", "").lstrip("$")
    return Number(Fraction(plain.rstrip("%")), plain.endswith("%"))


def numbers_in(text: str) -> list[Number]:
    """The numbers written in a text."""
    numerals = (match[1].replace(",", "").rstrip(".") for match in _NUMERAL.finditer(text))
    return [Number(Fraction(numeral)) for numeral in numerals if numeral]


def lookalikes(text: str) -> list[Number]:
    """The values of all runs of digits, such as 18 in "18k" or 3 in "3/4"."""
    return [Number(Fraction(run)) for run in _RUN.findall(text) if len(run) < 12]


def _round(rng: Random) -> Fraction:
    return Fraction(rng.randint(1, 99) * 10 ** rng.randint(2, 6))


def _large(rng: Random) -> Fraction:
    return Fraction(rng.randint(1_000, 10 ** rng.randint(4, 8)))


def _fraction(rng: Random) -> Fraction:
    return Fraction(rng.randint(1, 12), rng.randint(2, 12))


_RARE: tuple[Callable[[Random], Fraction], ...] = (
    lambda rng: Fraction(rng.randint(0, 9)),
    lambda rng: Fraction(rng.randint(10, 99)),
    lambda rng: Fraction(rng.choice((*range(11, 20), 20, 30, 40, 50, 60, 70, 80, 90))),
    lambda rng: Fraction(rng.randint(100, 999)),
    *(_large, _large, _round, _round),
    lambda rng: rng.randint(1, 300) + Fraction(rng.choice((5, 25, 50, 75, 99)), 100),
    lambda rng: Fraction(rng.randint(1, 999), rng.choice((10, 10, 100, 4, 8))),
    *(_fraction, _fraction),
    lambda rng: rng.randint(0, 30) + Fraction(rng.choice((1, 1, 1, 3, 2)), rng.choice((2, 4))),
    lambda rng: -Fraction(rng.randint(1, 400), rng.choice((1, 1, 1, 2))),
    lambda rng: Fraction(rng.randint(1, 200)),  # a percentage
)


def invented(rng: Random) -> Number:
    """A random value, of a kind that is rare among GSM8K's answers."""
    kind = rng.randrange(len(_RARE))
    return Number(_RARE[kind](rng), percent=kind == len(_RARE) - 1)


def _miss(value: Number, rng: Random, others: Sequence[Answer]) -> Number | None:
    number, kind = value.number, rng.random()
    if kind < 0.20 and others:
        return rng.choice([other for other in others if isinstance(other, Number)] or [value])
    if kind < 0.22:
        return _misheard(value)
    if kind < 0.26:
        return _rounded(value, rng)
    if kind < 0.31:
        return Number(number + rng.choice((-2, -1, -1, 1, 1, 2)), value.percent)
    if kind < 0.36:
        return Number(-number, value.percent)
    if kind < 0.50:
        return Number(number * rng.choice(_SLIPS))
    if kind < 0.55:
        return Number(number * rng.choice((2, Fraction(1, 2), 3)))
    if kind < 0.61:
        return Number(number, not value.percent)
    if kind < 0.67:
        return Number(
            number
            + rng.choice((1, -1)) * Fraction(rng.choice((1, 5, 25, 9)), rng.choice((10, 100)))
        )
    if kind < 0.70:
        if value.whole or number == 0:
            return invented(rng)
        return Number(rng.choice((Fraction(round(number)), 1 / number)))
    if kind < 0.76:
        return invented(rng)
    return _edited(value, rng)


def _rounded(value: Number, rng: Random) -> Number | None:
    """For example 3,600 for 3,645."""
    if not value.whole or abs(value.number) < 100:
        return None
    places = len(str(abs(int(value.number))))
    return Number(Fraction(round(int(value.number), -rng.randint(1, places - 1))), value.percent)


def _misheard(value: Number) -> Number | None:
    """For example fourteen for forty."""
    number = value.number
    if value.whole and 13 <= number <= 19:
        return Number((number - 10) * 10, value.percent)
    if value.whole and number % 10 == 0 and 30 <= number <= 90:
        return Number(number / 10 + 10, value.percent)
    return None


def _edited(value: Number, rng: Random) -> Number | None:
    if value.decimal is None:
        top, bottom = value.number.numerator, value.number.denominator
        return Number(Fraction(top + rng.choice((-1, 1)), bottom + rng.choice((0, 0, 1))))
    text = list(value.decimal.lstrip("-"))
    places = [at for at, character in enumerate(text) if character.isdigit()]
    at, edit = rng.choice(places), rng.random()
    if edit < 0.3 and len(places) > 1:
        other = rng.choice(places)
        text[at], text[other] = text[other], text[at]
    elif edit < 0.65:
        text[at] = str(rng.randint(0, 9))
    elif edit < 0.8 and len(places) > 1:
        del text[at]
    else:
        text.insert(at + 1, str(rng.randint(0, 9)))
    edited = "".join(text).strip(".")
    if not edited or edited.count(".") > 1:
        return None
    number = Fraction(edited)
    return Number(-number if value.number < 0 else number, value.percent)
