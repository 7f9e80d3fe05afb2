r"""Whether a text may contain a number in any form; used to reject responses without the answer.

Since a False here rejects a response, `may_hold` errs towards True, unlike `parse_number`: it
returns True if a reader could possibly find the number, whether spelled out, split, scaled, in
another script or as unevaluated arithmetic.

    may_hold("17 - 4 = 13 pears are left", Fraction(18))       # False
    may_hold("a dozen and a half pears are left", Fraction(18))  # True
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import islice

from reward_serve.rules.numbers.foreign import may_be_numbers
from reward_serve.rules.numbers.parsing import MAX_DIGITS, words_value
from reward_serve.rules.numbers.words import (
    ANY_NUMBER_WORD,
    CENTS,
    HIDING_WORDS,
    MEASURES,
    NUMBER_WORDS,
)

MAX_CHARACTERS = 50_000
MAX_NUMBERS = 5_000
MAX_PLACES = 12  # decimals

# Conversion factors between units: cents, minutes, weeks, inches, ounces, kilograms, ...
CONVERSIONS = frozenset(
    Fraction(factor)
    for factor in (
        *(2, 3, 4, 5, 7, 8, 10, 12, 14, 16, 20, 24, 25, 28, 30, 31, 36, 52, 60, 100, 128, 144, 168),
        *(360, 365, 366, 1000, 1440, 1728, 1760, 2000, 3600, 5280, 10_000, 10_080),
        *(63_360, 86_400, 604_800, 10**6, 10**9),
    )
)
# Those of areas, volumes, speeds and years are compared with a stated unit only: with every number
# of a text, some would fit by chance.
_RARE = tuple(
    Fraction(factor)
    for factor in (
        *(6, 9, 27, 32, 48, 64, 256, 640, 720, 744, 768, 1296, 1609, 4047, 4840, 8760, 43_560),
        *(525_600, 31_536_000, "22/15", "2.471", "2.59", "3.281", "3.6", "3.785", "4.546", "4.929"),
        *("6.452", "10.764", "14.787", "25.4", "29.574", "30.48", "35.274", "39.37", "91.44"),
        *("236.6", "453.6", "473.2", "907.2", "946.4", 200, 220, 1024),
        *(42, 500, 1852, "1.151", "1.852", "57.296"),
    )
)
_ABOUT = tuple(  # km in a mile, lb in a kg, cm in an inch, g in an ounce: less and more by 1%
    (factor * Fraction("0.99"), factor * Fraction("1.01"))
    for factor in map(Fraction, ("1.609", "2.205", "2.54", "28.35"))
)

# The text must contain one of these English words, or else it may be in another language, whose
# number words could state the value.
_ENGLISH = re.compile(
    r"\b(?:the|and|this|that|with|each|have|she|they|there|you|what|which|not|know|sorry)\b"
)
_MEASURE = "|".join(sorted(MEASURES | CENTS | {"in", "l", "m", "h", "euros", "dollars"}))
_CANNOT_READ = re.compile(
    rf"\d{{{MAX_DIGITS + 1}}}"
    r"|\d\s*[:h]\s*\d|\d ?[ap]\.?m\b"  # times of day
    r"|[a-z_]\*[a-z_]|[-*/]=|\w ?// ?\w|&nbsp;"  # code, entities
    r"|``|&#|\\u\d|\\[a-z]+\s?\{\d+\}\\[a-z]+\s?\{\d|</?[a-z]+>\d|\d</?[a-z]"  # markup in a number
    r"|[|]{3,}|i{4,}|\b[a-z](?:[ .-][a-z]){3,}\b"  # tally marks, a word spelled out
    r"|\d\s*['\"]\s*\d|\d!|\d\s?\(\s?\d|\)\s?[\d(]"  # feet and inches, factorials, products
    r"|\d (?:and|&) "  # possibly a sum
    rf"|{ANY_NUMBER_WORD} or (?:\d|{ANY_NUMBER_WORD})"  # twenty-six or seven
    r"|[\d)}]\s?_|[\u2080-\u2089]|\\over"  # digits of another base
    rf"|(?:\d|{ANY_NUMBER_WORD}) (?:out of|over|of|in|in every|by|per|to) "
    rf"(?:\d|{ANY_NUMBER_WORD}\b)"
    r"|[\^√∛]|\\(?:sqrt|cdot|times|div|binom|log|sum|prod)"
    r"|\d(?!(?:st|nd|rd|th|kg|g|lbs?|oz|cm|mm|km|ft|mph|am|pm|hrs?|mins?|ml)\b)[a-z]"  # 18k, 2x, 0x
    r"|\d\s*(?:hundred|thousand|million|billion|trillion)"
    rf"|\d ?(?:{_MEASURE})\b,?(?: and)? \d"
    rf"|\b(?:an|{ANY_NUMBER_WORD}) (?:hour|feet|foot|dollar|pound)s?,?(?: and)? {ANY_NUMBER_WORD}\b"
    r"|ty[ -](?:first|second)\b|\b(?:right|straight) angles?\b"
    r"|\b(?:hour|hr|feet|foot|yard|pound|week|day|year|month|minute|dollar|buck|gallon|quart|cup"
    r"|kilo\w*|meter|mile)s?,?(?: and)? [\w.]+(?:[ -][\w.]+)? (?:min|sec|cent|inch|day|week|month"
    r"|hour|ounce|gram|quart|pint|cup|feet|yard|meter|penn)"  # 2 hours and thirty-five minutes
)
_I = re.compile(r"\bI(?:'|\s(?:am|do|don|have|think|can|could|will|would|need|was|know)\b)")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_BETWEEN_DIGITS = r"[\s.,'_*{}\\!;~$-]*"
_NUMERAL = re.compile(r"\d{1,3}(?:,\d{3}){1,12}(?:\.\d+)?|\d*\.?\d+")
_SPACED_NUMERAL = re.compile(r"\d{1,3}(?: \d{3}){1,12}")
_FRACTION = re.compile(
    r"(?:(?<!\d)(\d{1,40})\s?)?"
    r"(?:\\[dtc]?frac\s?\{?\s?[-+]?\s?(\d{1,40})\s?\}?\s?\{?\s?[-+]?|(?<!\d)(\d{1,40})\s?[/\u2044]\s?)"
    r"(\d{1,40})"
)
_ROMAN = re.compile(r"\b[ivxlcdm]{1,15}\b")
_ROMAN_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}
# Embeddings, overrides and isolates can display "81" as 18.
_REORDERING = frozenset(["LRE", "RLE", "LRO", "RLO", "LRI", "RLI", "FSI"])
_SLASHES = frozenset("\u2044\u2215\u29f8\uff0f")
_UNKNOWN = "\ufffd"
_WORD = re.compile(r"[a-z]+")
_PUNCTUATION = re.compile(r"[.!?;:,\n]")
_ADDING = re.compile(
    r"\b(?:another|extra|more|sum|than|addition to|(?:along|together) with|except|excluding"
    rf"|save for|apart from|all but)|\w but (?:\d|{ANY_NUMBER_WORD}\b)"
)  # 16 and another, the sum of 16 and 2, all but two of the 20
_EACH = re.compile(  # 6 rows with 11 in each
    r"\b(?:each|every|apiece|(?:rows|boxes|bags|packs|groups|stacks|sets) of)\b"
)
_SENTENCE_END = re.compile(r"\n|(?<=[.!?;])\s")
_OPERATOR = re.compile(
    r"[+×÷·⋅∗∙]|\s\*\s|\d\s?\*\*\s?\d|[\d)]\s?\*(?!\*)\s?[\d($]|[\w)%]\s?-\s?[\d($]|\s-\s|(?<!<)\bx(?:\b|\d)"
    r"|[)/]\s*\$?\d+\s*/|/\s*\(|\)\s*/"
)


def may_hold(text: str, value: Fraction) -> bool:
    """Whether `text` may contain `value` in any form; True in case of doubt.

    Args:
        text: Any text, such as a model's response.
        value: The number to look for; signs, units and percent signs are ignored.

    Returns:
        False only if every number of the text was parsed and none could be `value`.
    """
    if value.denominator > 1 and 10**12 % value.denominator:
        return True
    if value in (0, 1) or len(text) > MAX_CHARACTERS:
        return True
    readable = _parsed(text)
    if readable is None:
        return True
    digits = str(abs(value * 10**12).numerator).rstrip("0") if value.denominator > 1 else ""
    zeros = "0*" if digits else ""  # 45,60 euros
    digits = digits or str(abs(value.numerator))
    if re.search(rf"(?<!\d){zeros}{_BETWEEN_DIGITS.join(digits)}{zeros}(?!\d)", readable):
        return True
    found = _numbers(readable)
    if len(found) > MAX_NUMBERS or any(
        number is None or may_equal(number, value, units=True) or _may_round(number, value)
        for number in set(found)
    ):
        return True
    numbers = frozenset(filter(None, found))
    if "degree" in readable and 360 - abs(value) in numbers:
        return True  # -30 and 330
    if _EACH.search(readable) and any(value / number in numbers for number in numbers):
        return True
    return bool(_ADDING.search(readable)) and abs(value) <= _sum(readable)


# A response is read once, however many references it is compared with.
@lru_cache(maxsize=2)
def _parsed(text: str) -> str | None:
    """The text in plain characters; None if it may contain any number."""
    readable = _readable(text)
    if readable is None or _CANNOT_READ.search(readable) or _has_open_arithmetic(readable):
        return None
    return readable


@lru_cache(maxsize=2)
def _numbers(readable: str) -> tuple[Fraction | None, ...]:
    return tuple(islice(_values(readable), MAX_NUMBERS + 1))


@lru_cache(maxsize=2)
def _sum(readable: str) -> int:
    """An upper bound of the sum of a text's numbers; exact fractions would take too long."""
    return sum(math.ceil(number) + 1 for number in _numbers(readable) if number)


def may_equal(number: Fraction, other: Fraction, *, units: bool) -> bool:
    """Whether two amounts may be equal up to a sign, rounding, scale or unit.

    Args:
        number: One amount.
        other: The other amount.
        units: Whether either has a unit, so that 2 (hours) may be 120 (minutes).

    Returns:
        True if their absolute values are equal, differ by a factor of 100 or a power of 1,000, by a
        factor of `CONVERSIONS` with `units`, or by less than 1% when either is not an integer.
    """
    small, large = sorted((abs(number), abs(other)))
    if small == large:
        return True
    if not small:
        return False
    ratio = large / small
    if ratio in (100, 1000, 10**6, 10**9) or (units and ratio in CONVERSIONS):
        return True
    if units and any(less < ratio < more for less, more in _ABOUT):
        return True
    return (number.denominator > 1 or other.denominator > 1) and (large - small) * 100 < large


def may_convert(number: Fraction, other: Fraction) -> bool:
    """Whether a factor between two units that ``may_equal`` does not know explains two amounts."""
    small, large = sorted((abs(number), abs(other)))
    return any(abs(small * factor - large) * 100 < large for factor in _RARE)


def may_round(number: Fraction, other: Fraction) -> bool:
    """Whether one of the numbers is the other, rounded to its decimal places."""
    return rounds_to(number, other) or rounds_to(other, number)


def rounds_to(number: Fraction, other: Fraction) -> bool:
    """Whether the second number is the first, rounded to its decimal places."""
    places = next((p for p in range(MAX_PLACES) if (other * 10**p).denominator == 1), 0)
    return places > 0 and round(number, places) == other


def _may_round(number: Fraction, value: Fraction) -> bool:
    return number.denominator > 1 and abs(number - abs(value)) < 1


def _readable(text: str) -> str | None:
    plain = text if text.isascii() else "".join(map(_ascii, text))
    plain = _CONTROL.sub("", plain)
    if _UNKNOWN in plain:
        return None
    english = _I.search(plain)
    plain = plain.lower()
    words = set(_WORD.findall(plain))
    if words and not english and not _ENGLISH.search(plain):
        return None
    return None if words & HIDING_WORDS or may_be_numbers(words) else plain


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if unicodedata.bidirectional(character) in _REORDERING:
        return _UNKNOWN
    if category in {"Cf", "Mn", "Me"}:
        return ""
    if character in _SLASHES:
        return "/"
    if category == "Pd" or character == "\u2212":
        return "-"
    if category.startswith("P"):
        return "'"
    if category.startswith("Z"):
        return " "
    known = category == "Sm" or (category.startswith("L") and character < "\u0250")
    return character if known else _UNKNOWN


def _has_open_arithmetic(text: str) -> bool:
    for sentence in _SENTENCE_END.split(text):
        _, equals, result = sentence.rpartition("=")
        if _OPERATOR.search(result) or (equals and not any(map(str.isdigit, result))):
            return True
    return False


def _values(text: str) -> Iterator[Fraction | None]:
    yield Fraction(1)  # "an hour" is 60 minutes
    for numeral in _NUMERAL.finditer(text):
        yield Fraction(numeral[0].replace(",", ""))
    for numeral in _SPACED_NUMERAL.finditer(text):
        yield Fraction(numeral[0].replace(" ", ""))
    for fraction in _FRACTION.finditer(text):
        whole, top, over, bottom = map(int, fraction.groups(default="0"))
        if bottom:
            yield Fraction(top or over, bottom)
            yield whole + Fraction(top or over, bottom)
    for roman in _ROMAN.finditer(text):
        yield Fraction(_roman_value(roman[0]))
    yield from _word_values(_WORD.findall(text))
    for part in _PUNCTUATION.split(text):  # "Not fifty. Eighteen."
        yield from _word_values(_WORD.findall(part))


def _roman_value(numeral: str) -> int:
    values = [_ROMAN_DIGITS[letter] for letter in numeral]
    following = [*values[1:], 0]
    return sum(-one if one < two else one for one, two in zip(values, following, strict=True))


def _word_values(words: list[str]) -> Iterator[Fraction | None]:
    run: list[str] = []
    for word in [*words, ""]:
        if word in NUMBER_WORDS or (run and word == "and"):
            run.append(word)
            continue
        if run:
            value = words_value(run[:-1] if run[-1] == "and" else run)  # None: "twenty and one"
            yield None if value is None else Fraction(value)
        run = []
