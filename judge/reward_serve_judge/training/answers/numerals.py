"""Numbers in the forms that policies write."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from num2words import num2words

from reward_serve_judge.training.texts import PARTS, SIGNS, TEXTS

_SPELT = frozenset(["en", "es", "de", "fr", "pt", "it", "nl"])


def decimal(number: Fraction) -> str | None:
    """In decimal digits; None if it needs more than four decimals."""
    if (number * 10_000).denominator != 1:
        return None
    text = f"{float(number):.4f}".rstrip("0").rstrip(".")
    return text if abs(number) < 10**11 else None


def digits(number: Fraction, rng: Random, commas: float = 0.35) -> str:
    """In digits: 1800, 1,800, 18.5, 3/4, -7."""
    text = decimal(number)
    if text is None:
        return f"{number.numerator}/{number.denominator}"
    if abs(number) >= 1000 and rng.random() < commas:
        whole, point, rest = text.partition(".")
        text = f"{int(whole):,}{point}{rest}"
    return text


def spelled(number: Fraction, lang: str = "en") -> str | None:
    """In words; None if nobody would write it in words."""
    if number.denominator == 1 and abs(number) < 10**7 and lang in _SPELT:
        return str(num2words(int(number), lang=lang))
    if lang != "en":
        return None
    whole, part = divmod(number, 1)
    if number > 0 and whole < 200 and (words := PARTS.get(part)):
        if not whole:
            return words
        return f"{num2words(int(whole))} and {words.replace('one half', 'a half')}"
    if decimal(number) and abs(number) < 1000:
        return str(num2words(float(number)))
    return None


def written(number: Fraction, percent: bool, rng: Random, tex: bool, lang: str) -> str:
    """The number, or the percentage, in one of the forms that a response may use."""
    text = _percent(number, rng, tex) if percent else _written(number, rng, tex, lang)
    if tex:
        return text.replace("$", r"\$").replace("%", r"\%")
    return text


def _written(number: Fraction, rng: Random, tex: bool, lang: str) -> str:
    text = digits(number, rng)
    chance = rng.random()
    if number < 0 and chance < 0.45:
        return _negative(number, rng, tex)
    if number.denominator != 1 and (chance < 0.6 or decimal(number) is None):
        return _fraction(number, rng, tex)
    if number >= 1000 and chance < 0.40:
        return _large(number, text, rng, tex)
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
    if chance < 0.97 and not tex and (words := spelled(number, lang)):
        return _worded(words, text, rng)
    return text


def _percent(number: Fraction, rng: Random, tex: bool) -> str:
    text = digits(number, rng)
    forms = [f"{text}%"] * 3 + [f"{text} percent", f"{text} %", f"{text} per cent"]
    if not tex and (words := spelled(number)):
        forms += [f"{words} percent", f"{words} percent".capitalize()]
    return rng.choice(forms)


def _negative(number: Fraction, rng: Random, tex: bool) -> str:
    bare = digits(-number, rng)
    forms = [f"−{bare}", f"negative {bare}", f"minus {bare}", f"-${bare}", f"$-{bare}"]
    forms += [rf"-{bare}^\circ" if tex else f"-{bare}°", f"-{bare} degrees"]
    if not tex and (words := spelled(-number)):
        forms += [f"negative {words}", f"minus {words}", f"Minus {words}"]
    return rng.choice(forms)


def _worded(words: str, text: str, rng: Random) -> str:
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


def _large(number: Fraction, text: str, rng: Random, tex: bool) -> str:
    """A value of at least 1,000, with a scale word or grouped digits."""
    sign = "$" if rng.random() < 0.3 else ""
    scaled = _scaled(number, rng)
    if scaled and rng.random() < 0.7:
        unit = f" {rng.choice(TEXTS['units'])}" if not sign and rng.random() < 0.25 else ""
        return sign + scaled + unit
    separators = ("{,}", r"\,", ",", r"{,}\!") if tex else (",", ",", ",", " ", "\u00a0", "\u202f")
    whole, point, rest = (decimal(number) or text).partition(".")
    if not whole.isdigit():
        return text
    grouped = f"{int(whole):,}".replace(",", rng.choice(separators))
    return f"{sign}{grouped}{point}{rest}"


def _scaled(number: Fraction, rng: Random) -> str | None:
    scales = ((10**6, (" million", "M")), (10**3, (" thousand", "k", "K")))
    for scale, words in scales:
        head = number / scale
        text = decimal(head)
        if abs(head) >= 1 and text and len(text) <= 5:
            spoken = spelled(head) if head.denominator == 1 and rng.random() < 0.3 else None
            return f"{spoken}{words[0]}" if spoken else text + rng.choice(words)
    digit = decimal(number)
    if digit and number.denominator == 1 and len(digit.rstrip("0")) <= 3 and rng.random() < 0.5:
        lead, power = digit.rstrip("0"), len(digit) - 1
        mantissa = f"{lead[0]}.{lead[1:]}" if len(lead) > 1 else lead
        return rng.choice((f"{mantissa} x 10^{power}", f"{mantissa}e{power}"))
    return None


def _fraction(number: Fraction, rng: Random, tex: bool) -> str:
    top, bottom = number.numerator, number.denominator
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
        if sign_of_part := SIGNS.get(Fraction(rest, bottom)):
            forms.append(f"{whole or ''}{sign_of_part}")
        if words := spelled(number):
            forms += [words, words.capitalize(), f"{words} {rng.choice(TEXTS['units'])}"]
    if (text := decimal(number)) is not None:
        forms += [text, text, _zeros(text), f"${_zeros(text, 2)}"]
        if abs(number) < 1:
            forms.append(text.replace("0.", ".", 1))
        if not tex and number > 1 and (number * 100).denominator == 1:
            cents = int(rest * 100 / bottom)
            forms.append(f"{whole} dollars and {cents} cents")
    scale = Fraction(rng.randint(2, 5))
    forms.append(f"{sign}{abs(top) * scale}/{bottom * scale}")
    return rng.choice(forms)
