"""Numbers as policies write them: the same value in many forms, and values that nearly are it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from num2words import num2words

from examples.train_judge.texts import TEXTS

_SLIPS = (Fraction(1, 10), 10, Fraction(1, 100), 100, 1000, Fraction(1, 1000))
_NUMERAL = re.compile(r"(?<![\w.])\$?(\d[\d,]*(?:\.\d+)?)(?![\w%])")


@dataclass(frozen=True, slots=True)
class Value:
    """A number, and whether it is a percentage."""

    number: Fraction
    percent: bool = False

    @property
    def whole(self) -> bool:
        """No fractional part."""
        return self.number.denominator == 1

    @property
    def decimal(self) -> str | None:
        """In decimal digits; None where they do not end within four."""
        scaled = self.number * 10_000
        if scaled.denominator != 1:
            return None
        text = f"{float(self.number):.4f}".rstrip("0").rstrip(".")
        return text if abs(self.number) < 10**11 else None


def parse(text: str) -> Value:
    """The value of a GSM8K answer.

    Raises:
        ValueError: it is no number.
    """
    plain = text.strip().replace(",", "").lstrip("$")
    return Value(Fraction(plain.rstrip("%")), plain.endswith("%"))


def numbers_in(text: str) -> list[Value]:
    """The numbers written in a text."""
    found = (match[1].replace(",", "").rstrip(".") for match in _NUMERAL.finditer(text))
    return [Value(Fraction(numeral)) for numeral in found if numeral]


def invented(rng: Random) -> Value:
    """A value of a kind that is rare among GSM8K's answers."""
    kind = rng.choice(
        ("digit", "small", "hundreds", "large", "large", "round", "cents", "decimal", "fraction",
         "negative", "percent")
    )  # fmt: skip
    if kind == "digit":
        return Value(Fraction(rng.randint(0, 9)))
    if kind == "small":
        return Value(Fraction(rng.randint(10, 99)))
    if kind == "hundreds":
        return Value(Fraction(rng.randint(100, 999)))
    if kind == "large":
        return Value(Fraction(rng.randint(1_000, 10 ** rng.randint(4, 8))))
    if kind == "round":
        return Value(Fraction(rng.randint(1, 99) * 10 ** rng.randint(2, 6)))
    if kind == "cents":
        return Value(Fraction(rng.randint(1, 300)) + Fraction(rng.choice((5, 25, 50, 75, 99)), 100))
    if kind == "decimal":
        return Value(Fraction(rng.randint(1, 999), rng.choice((10, 10, 100, 4, 8))))
    if kind == "fraction":
        return Value(Fraction(rng.randint(1, 12), rng.randint(2, 12)))
    if kind == "negative":
        return Value(-Fraction(rng.randint(1, 400), rng.choice((1, 1, 1, 2))))
    return Value(Fraction(rng.randint(1, 200)), percent=True)


def gold_text(value: Value, rng: Random) -> str:
    """The value as a reference answer."""
    text = digits(value, rng, commas=0.5)
    if value.percent:
        return text + "%"
    return f"${text}" if value.number > 0 and rng.random() < 0.04 else text


def digits(value: Value, rng: Random, commas: float = 0.35) -> str:
    """In digits: 1800, 1,800, 18.5, 3/4, -7."""
    text = value.decimal
    if text is None:
        return f"{value.number.numerator}/{value.number.denominator}"
    if abs(value.number) >= 1000 and rng.random() < commas:
        whole, point, rest = text.partition(".")
        text = f"{int(whole):,}{point}{rest}"
    return text


def spelled(value: Value) -> str | None:
    """In English words; None where nobody would."""
    number = value.number
    if value.whole and abs(number) < 10**7:
        return str(num2words(int(number)))
    if number.denominator == 2 and 0 < number < 200:
        whole = int(number)
        return f"{num2words(whole)} and a half" if whole else "one half"
    if number.denominator == 4 and 0 < number < 1:
        return {1: "one quarter", 3: "three quarters"}[number.numerator]
    if value.decimal and abs(number) < 1000:
        return str(num2words(float(number)))
    return None


def written(value: Value, rng: Random, *, tex: bool = False) -> str:
    """The value in one of the forms that a response may give it."""
    text = _written(value, rng, tex)
    if tex:
        return text.replace("$", r"\$").replace("%", r"\%")
    return text


def _written(value: Value, rng: Random, tex: bool) -> str:
    text = digits(value, rng)
    chance = rng.random()
    if value.percent:
        return rng.choice((f"{text}%", f"{text}%", f"{text} percent", f"{text} %"))
    if value.number < 0 and chance < 0.35:
        bare = digits(Value(-value.number), rng)
        return rng.choice((f"−{bare}", f"negative {bare}", f"minus {bare}", f"-${bare}"))
    if not value.whole and (chance < 0.4 or value.decimal is None):
        return _fraction(value, rng, tex)
    if chance < 0.45:
        return text
    if chance < 0.55:
        return _zeros(text)
    if chance < 0.67:
        return rng.choice(TEXTS["money"]).format(_zeros(text, 2) if rng.random() < 0.3 else text)
    if chance < 0.80:
        unit = rng.choice(TEXTS["units"])
        return rf"{text} \text{{ {unit}}}" if tex else f"{text} {unit}"
    if chance < 0.93 and (words := spelled(value)) and not tex:
        words = words if rng.random() < 0.7 else words.replace(" and ", " ").replace(",", "")
        return f"{words} {rng.choice(TEXTS['units'])}" if rng.random() < 0.4 else words
    if chance < 0.97 and value.whole and value.number >= 1000 and value.number % 100 == 0:
        return _scaled(value, text, rng)
    return text


def _zeros(text: str, places: int = 1) -> str:
    if "/" in text:
        return text
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest.ljust(max(places, len(rest) + (1 if rest else 0)), '0')}"


def _scaled(value: Value, text: str, rng: Random) -> str:
    for scale, words in ((10**6, (" million", "M")), (10**3, (" thousand", "k", "K"))):
        head = Value(value.number / scale)
        if abs(head.number) >= 1 and head.decimal and len(head.decimal) <= 5:
            return head.decimal + rng.choice(words)
    return text


def _fraction(value: Value, rng: Random, tex: bool) -> str:
    top, bottom = value.number.numerator, value.number.denominator
    sign = "-" if top < 0 else ""
    whole, rest = divmod(abs(top), bottom)
    forms = [f"{sign}{abs(top)}/{bottom}"]
    if tex:
        forms += [
            rf"{sign}\frac{{{abs(top)}}}{{{bottom}}}",
            rf"{sign}\dfrac{{{abs(top)}}}{{{bottom}}}",
        ]
    elif whole and not sign:
        forms.append(f"{whole} {rest}/{bottom}")
    if not tex and not sign and (words := spelled(value)):
        forms.append(words)
    if value.decimal:
        forms += [value.decimal] * 2
    return rng.choice(forms)


def near_miss(value: Value, rng: Random, others: Sequence[Value]) -> Value:
    """Another value, mostly one that is easily taken for this one.

    Args:
        value: the value to miss.
        rng: where chance comes from.
        others: values that stand nearby, such as intermediate results.
    """
    for _ in range(50):
        miss = _miss(value, rng, others)
        if miss is not None and miss != value:
            return miss
    return Value(value.number + 1, value.percent)


def _miss(value: Value, rng: Random, others: Sequence[Value]) -> Value | None:
    number, kind = value.number, rng.random()
    if kind < 0.22 and others:
        return rng.choice(list(others))
    if kind < 0.30:
        return Value(number + rng.choice((-2, -1, -1, 1, 1, 2)), value.percent)
    if kind < 0.36:
        return Value(-number, value.percent)
    if kind < 0.50:
        return Value(number * rng.choice(_SLIPS))
    if kind < 0.55:
        return Value(number * rng.choice((2, Fraction(1, 2), 3)))
    if kind < 0.61:
        return Value(number, not value.percent)
    if kind < 0.67:
        return Value(
            number
            + rng.choice((1, -1)) * Fraction(rng.choice((1, 5, 25, 9)), rng.choice((10, 100)))
        )
    if kind < 0.70:
        return Value(Fraction(round(number))) if not value.whole else invented(rng)
    if kind < 0.76:
        return invented(rng)
    return _edited(value, rng)


def _edited(value: Value, rng: Random) -> Value | None:
    if value.decimal is None:
        top, bottom = value.number.numerator, value.number.denominator
        return Value(Fraction(top + rng.choice((-1, 1)), bottom + rng.choice((0, 0, 1))))
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
    return Value(-number if value.number < 0 else number, value.percent)
