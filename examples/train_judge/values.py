"""Numbers in the forms that policies write, and near misses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from num2words import num2words

from examples.train_judge.texts import TEXTS

_SPELT = frozenset(["en", "es", "de", "fr", "pt", "it", "nl"])
_PARTS = {
    Fraction(1, 2): "one half",
    Fraction(1, 4): "one quarter",
    Fraction(3, 4): "three quarters",
    Fraction(1, 3): "one third",
    Fraction(2, 3): "two thirds",
    Fraction(1, 5): "one fifth",
    Fraction(2, 5): "two fifths",
    Fraction(3, 5): "three fifths",
    Fraction(1, 8): "one eighth",
}
_SIGNS = {
    Fraction(1, 2): "½",
    Fraction(1, 4): "¼",
    Fraction(3, 4): "¾",
    Fraction(1, 3): "⅓",
    Fraction(2, 3): "⅔",
}
_SLIPS = (Fraction(1, 10), 10, Fraction(1, 100), 100, 1000, Fraction(1, 1000))
_RUN = re.compile(r"\d+(?:\.\d+)?")
_NUMERAL = re.compile(r"(?<![\w.])\$?(\d[\d,]*(?:\.\d+)?)(?![\w%])")


@dataclass(frozen=True, slots=True)
class Value:
    """A number, and whether it is a percentage."""

    number: Fraction
    percent: bool = False

    @property
    def whole(self) -> bool:
        """Whether it has no fractional part."""
        return self.number.denominator == 1

    @property
    def decimal(self) -> str | None:
        """In decimal digits; None if it needs more than four decimals."""
        scaled = self.number * 10_000
        if scaled.denominator != 1:
            return None
        text = f"{float(self.number):.4f}".rstrip("0").rstrip(".")
        return text if abs(self.number) < 10**11 else None


def parse(text: str) -> Value:
    """The value of a GSM8K answer.

    Raises:
        ValueError: the text is not a number.
    """
    plain = text.strip().replace(",", "").lstrip("$")
    return Value(Fraction(plain.rstrip("%")), plain.endswith("%"))


def numbers_in(text: str) -> list[Value]:
    """The numbers written in a text."""
    found = (match[1].replace(",", "").rstrip(".") for match in _NUMERAL.finditer(text))
    return [Value(Fraction(numeral)) for numeral in found if numeral]


def lookalikes(text: str) -> list[Value]:
    """The values of all runs of digits, such as 18 in "18k" or 3 in "3/4"."""
    return [Value(Fraction(run)) for run in _RUN.findall(text) if len(run) < 12]


def invented(rng: Random) -> Value:
    """A random value, of a kind that is rare among GSM8K's answers."""
    kind = rng.choice(
        ("digit", "small", "teen", "hundreds", "large", "large", "round", "round", "cents",
         "decimal", "fraction", "fraction", "part", "negative", "percent")
    )  # fmt: skip
    if kind == "digit":
        return Value(Fraction(rng.randint(0, 9)))
    if kind == "small":
        return Value(Fraction(rng.randint(10, 99)))
    if kind == "teen":
        return Value(Fraction(rng.choice((*range(11, 20), 20, 30, 40, 50, 60, 70, 80, 90))))
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
    if kind == "part":
        return Value(rng.randint(0, 30) + Fraction(rng.choice((1, 1, 1, 3, 2)), rng.choice((2, 4))))
    if kind == "negative":
        return Value(-Fraction(rng.randint(1, 400), rng.choice((1, 1, 1, 2))))
    return Value(Fraction(rng.randint(1, 200)), percent=True)


def gold_text(value: Value, rng: Random) -> str:
    """The value as a reference answer."""
    text = digits(value, rng, commas=0.5)
    top, bottom = value.number.numerator, value.number.denominator
    if 1 < bottom <= 12 and rng.random() < 0.5:
        sign, top = ("-", -top) if top < 0 else ("", top)
        slashed = f"{sign}{top}/{bottom}"
        text = slashed if rng.random() < 0.7 else rf"{sign}\frac{{{top}}}{{{bottom}}}"
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


def numeral(value: Value, rng: Random) -> str:
    """In digits, with a percent sign for percentages."""
    return digits(value, rng) + ("%" if value.percent else "")


def spelled(value: Value, lang: str = "en") -> str | None:
    """In words; None if nobody would write it in words."""
    number = value.number
    if value.whole and abs(number) < 10**7 and lang in _SPELT:
        return str(num2words(int(number), lang=lang))
    if lang != "en":
        return None
    whole, part = divmod(number, 1)
    if number > 0 and whole < 200 and (words := _PARTS.get(part)):
        if not whole:
            return words
        return f"{num2words(int(whole))} and {words.replace('one half', 'a half')}"
    if value.decimal and abs(number) < 1000:
        return str(num2words(float(number)))
    return None


def written(value: Value, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
    """The value in one of the forms that a response may use.

    Args:
        value: the value.
        rng: random generator.
        tex: write it as LaTeX.
        lang: language of number words; unsupported languages get digits.
    """
    text = _written(value, rng, tex, lang)
    if tex:
        return text.replace("$", r"\$").replace("%", r"\%")
    return text


def _written(value: Value, rng: Random, tex: bool, lang: str) -> str:
    text = digits(value, rng)
    chance = rng.random()
    if value.percent:
        return _percent(text, value, rng, tex)
    if value.number < 0 and chance < 0.45:
        return _negative(value, rng, tex)
    if not value.whole and (chance < 0.6 or value.decimal is None):
        return _fraction(value, rng, tex)
    if value.number >= 1000 and chance < 0.40:
        return _large(value, text, rng, tex)
    if chance < 0.45:
        return text
    if chance < 0.53:
        return _zeros(text, rng.choice((1, 1, 2)))
    if chance < 0.64:
        return rng.choice(TEXTS["money"]).format(_zeros(text, 2) if rng.random() < 0.3 else text)
    if chance < 0.77:
        unit = rng.choice(TEXTS["units"])
        return rf"{text} \text{{ {unit}}}" if tex else f"{text} {unit}"
    if chance < 0.80:
        return rng.choice(TEXTS["about"]).format(text)
    if chance < 0.97 and not tex and (words := spelled(value, lang)):
        return _in_words(words, text, rng)
    return text


def _percent(text: str, value: Value, rng: Random, tex: bool) -> str:
    forms = [f"{text}%"] * 3 + [f"{text} percent", f"{text} %", f"{text} per cent"]
    if not tex and (words := spelled(Value(value.number))):
        forms += [f"{words} percent", f"{words} percent".capitalize()]
    return rng.choice(forms)


def _negative(value: Value, rng: Random, tex: bool) -> str:
    bare = digits(Value(-value.number), rng)
    forms = [f"−{bare}", f"negative {bare}", f"minus {bare}", f"-${bare}", f"$-{bare}"]
    forms += [rf"-{bare}^\circ" if tex else f"-{bare}°", f"-{bare} degrees"]
    if not tex and (words := spelled(Value(-value.number))):
        forms += [f"negative {words}", f"minus {words}", f"Minus {words}"]
    return rng.choice(forms)


def _in_words(words: str, text: str, rng: Random) -> str:
    if rng.random() < 0.35:
        words = words.replace("hundred and ", "hundred ").replace(",", "")
    if rng.random() < 0.15:
        words = words.replace("-", " ")
    case = rng.random()
    if case < 0.25:
        words = words.capitalize()
    elif case < 0.32:
        words = words.title() if case < 0.28 else words.upper()
    if rng.random() < 0.45:
        return f"{words} {rng.choice(TEXTS['units'])}"
    return f"{words} ({text})" if rng.random() < 0.08 else words


def _zeros(text: str, places: int = 1) -> str:
    if "/" in text:
        return text
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest.ljust(max(places, len(rest) + (1 if rest else 0)), '0')}"


def _large(value: Value, text: str, rng: Random, tex: bool) -> str:
    """A value of at least 1,000, with a scale word or grouped digits."""
    sign = "$" if rng.random() < 0.3 else ""
    scaled = _scaled(value, rng)
    if scaled and rng.random() < 0.7:
        unit = f" {rng.choice(TEXTS['units'])}" if not sign and rng.random() < 0.25 else ""
        return sign + scaled + unit
    separators = ("{,}", r"\,", ",", r"{,}\!") if tex else (",", ",", ",", " ", "\u00a0", "\u202f")
    whole, point, rest = (value.decimal or text).partition(".")
    if not whole.isdigit():
        return text
    grouped = f"{int(whole):,}".replace(",", rng.choice(separators))
    return f"{sign}{grouped}{point}{rest}"


def _scaled(value: Value, rng: Random) -> str | None:
    scales = ((10**6, (" million", "M")), (10**3, (" thousand", "k", "K")))
    for scale, words in scales:
        head = Value(value.number / scale)
        if abs(head.number) >= 1 and head.decimal and len(head.decimal) <= 5:
            spoken = spelled(head) if head.whole and rng.random() < 0.3 else None
            return f"{spoken}{words[0]}" if spoken else head.decimal + rng.choice(words)
    digit = value.decimal
    if digit and value.whole and len(digit.rstrip("0")) <= 3 and rng.random() < 0.5:
        lead, power = digit.rstrip("0"), len(digit) - 1
        mantissa = f"{lead[0]}.{lead[1:]}" if len(lead) > 1 else lead
        return rng.choice((f"{mantissa} x 10^{power}", f"{mantissa}e{power}"))
    return None


def _fraction(value: Value, rng: Random, tex: bool) -> str:
    top, bottom = value.number.numerator, value.number.denominator
    sign = "-" if top < 0 else ""
    whole, rest = divmod(abs(top), bottom)
    forms = [f"{sign}{abs(top)}/{bottom}"] * 2
    if tex:
        forms += [
            rf"{sign}\frac{{{abs(top)}}}{{{bottom}}}",
            rf"{sign}\dfrac{{{abs(top)}}}{{{bottom}}}",
            rf"{sign}\tfrac{{{abs(top)}}}{{{bottom}}}",
        ]
        if whole:
            forms.append(rf"{sign}{whole}\frac{{{rest}}}{{{bottom}}}")
    elif whole and not sign:
        forms += [f"{whole} {rest}/{bottom}"] * 2 + [f"{whole} and {rest}/{bottom}"]
    if not tex and not sign:
        if sign_of_part := _SIGNS.get(Fraction(rest, bottom)):
            forms.append(f"{whole or ''}{sign_of_part}")
        if words := spelled(value):
            forms += [words, words.capitalize(), f"{words} {rng.choice(TEXTS['units'])}"]
    if (text := value.decimal) is not None:
        forms += [text, text, _zeros(text), f"${_zeros(text, 2)}"]
        if abs(value.number) < 1:
            forms.append(text.replace("0.", ".", 1))
        if not tex and value.number > 1 and (value.number * 100).denominator == 1:
            cents = int(rest * 100 / bottom)
            forms.append(f"{whole} dollars and {cents} cents")
    scale = Fraction(rng.randint(2, 5))
    forms.append(f"{sign}{abs(top) * scale}/{bottom * scale}")
    return rng.choice(forms)


def near_miss(value: Value, rng: Random, others: Sequence[Value]) -> Value:
    """Another value, usually one that is easily confused with this one.

    Args:
        value: the value to miss.
        rng: random generator.
        others: nearby values, such as intermediate results.
    """
    for _ in range(50):
        miss = _miss(value, rng, others)
        if miss is not None and miss != value:
            return miss
    return Value(value.number + 1, value.percent)


def _miss(value: Value, rng: Random, others: Sequence[Value]) -> Value | None:
    number, kind = value.number, rng.random()
    if kind < 0.20 and others:
        return rng.choice(list(others))
    if kind < 0.22:
        return _misheard(value)
    if kind < 0.26:
        return _rounded(value, rng)
    if kind < 0.31:
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
        if value.whole or number == 0:
            return invented(rng)
        return Value(rng.choice((Fraction(round(number)), 1 / number)))
    if kind < 0.76:
        return invented(rng)
    return _edited(value, rng)


def _rounded(value: Value, rng: Random) -> Value | None:
    """For example 3,600 for 3,645."""
    if not value.whole or abs(value.number) < 100:
        return None
    places = len(str(abs(int(value.number))))
    return Value(Fraction(round(int(value.number), -rng.randint(1, places - 1))), value.percent)


def _misheard(value: Value) -> Value | None:
    """For example fourteen for forty."""
    number = value.number
    if value.whole and 13 <= number <= 19:
        return Value((number - 10) * 10, value.percent)
    if value.whole and number % 10 == 0 and 30 <= number <= 90:
        return Value(number / 10 + 10, value.percent)
    return None


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
