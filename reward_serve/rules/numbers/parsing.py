r"""Parse a short text as exactly one number, or return None.

`parse_number` understands digits with separators, signs, currencies, fractions, LaTeX, number
words and unit words. It returns None unless it understands the whole text:

    parse_number(r"\$1{,}800.50 per day")  # Number(value=Fraction(3601, 2), unit=("per", "day"))
    parse_number("17 or 18")               # None
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from reward_serve.rules.numbers.foreign import may_be_numbers
from reward_serve.rules.numbers.words import (
    ANY_NUMBER_WORD,
    MODIFIER_WORDS,
    NUMBER_WORDS,
    RATES,
    SCALE_WORDS,
    SHORT_UNITS,
    SMALL_WORDS,
    TENS_WORDS,
    UNIT_DOUBTS,
)

MAX_TEXT = 160
MAX_DIGITS = 40
MAX_UNIT_WORDS = 6
DEGREES = r"\^\s?\{?\s?\\circ\s?\}?|\\degree\b"
"""A pattern for LaTeX's degree sign."""

TYPOGRAPHY = {
    **dict.fromkeys("\u2212\u2010\u2011\ufe63\uff0d", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2005\u2007\u2008\u2009\u200a\u202f", " "),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
}
"""Unicode dashes, spaces and apostrophes to their ASCII equivalents."""

_CHARACTERS = str.maketrans(
    {
        **TYPOGRAPHY,
        **dict.fromkeys("\t\n\r", " "),
        **dict.fromkeys("\u201c\u201d", '"'),
        **dict.fromkeys("\u00a3\u20ac\u00a5\u20b9", "$"),
        "\u00bc": " 1/4",
        "\u00bd": " 1/2",
        "\u00be": " 3/4",
        "\u00b0": " degrees",
        "\u00a2": " cents",
    }
)
_LATEX = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\{,\}", ","),
        (r"(?<=\d)\s?\\[dtc]?frac", r" \\frac"),
        (r"\\[dtc]?frac\s?(?:\{\s?(\d+)\s?\}|(\d))\s?(?:\{\s?(\d+)\s?\}|(\d))", r"\1\2/\3\4 "),
        (r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|boxed|fbox)\s?\{", " {"),
        (DEGREES, " degrees"),
        (r"degrees ?(?:\{ ?)?C\b", "degrees celsius"),
        (r"degrees ?(?:\{ ?)?F\b", "degrees fahrenheit"),
        (r"\\[,;: !]|\\q?quad\b", " "),
        (r"\\[()\[\]]", ""),
        (r"\\([$%])", r"\1"),
        # Markdown's bold, but not Python's power: 2**3 is not 23.
        (r"(?<!\d)\*\*|\*\*(?!\d)", ""),
    )
)
_DIGITS_IN_BRACES = re.compile(r"\d[{}]+\d")
_BROKEN = re.compile(r"\d\s*[\t\n\r]\s*\d")  # two numbers, not one with a space
_GAP = re.compile(r"(?<=\D) {2,}|(?<=\d) {2,}(?!\d)")
_PREFIX = r"(?P<sign>[-+]?)(?:(?:(?:us|usd|ca|au) ?)?\$ ?){0,3}(?P<inner_sign>[-+]?)"
_FRACTION = re.compile(
    _PREFIX + r"(?:(?P<whole>\d+)[ ])?(?P<top>\d+) ?/ ?(?P<bottom>\d+)(?![\d.,])"
)
_DECIMAL = re.compile(
    _PREFIX + r"(?P<whole>[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|0|[1-9]\d*)?"
    r"(?P<part>\.\d+)?(?!\d)"
)
_SPELLED = re.compile(rf"(?:a )?{ANY_NUMBER_WORD}(?:[ -](?:and )?{ANY_NUMBER_WORD})*(?![a-z])")
_NO_UNIT_ENDINGS = ("ly", "eenth", "eenths", "ieth", "ieths", "fold", "illion", "illions")
_UNIT_WORD = re.compile(r"[a-z]+(?:'s|s')?")
_CUT_OFF = frozenset(["a", "an", "at", "by", "for", "from", "of", "on", "per", "the", "to", "with"])
_ATTACHED_UNIT = re.compile(
    r"(?:[km]?g|kgs|lbs?|oz|[cmk]m|ft|[mk]ph|hrs?|mins?|secs?|ml|[ap]m|usd|$)"
)
# Before "=" there may be arithmetic in digits or a name ("x", "total cost"), but not both:
# "17 because 9*2 = 18" answers 17.
_ARITHMETIC = re.compile(
    r"(?!.*(?:, |\d \())(?:[\d +\-*/().,$%]|(?<=[\d ])x(?=[\d $])|\\(?:times|cdot|div)\b)*[\d)%$] *"
)
_NAME = re.compile(r"[a-z]+(?: [a-z]+){0,3} *")
_ALTOGETHER = re.compile(r" (?:in total|in all|altogether)(?= |$)")
_DANGLING = re.compile(r" -|- |[-/]$")


@dataclass(frozen=True, slots=True)
class Number:
    """A parsed number.

    Attributes:
        value: The exact value; for a percentage the number before the sign (18% is 18).
        percent: Whether it is a percentage.
        unit: The words after the number, in lower case ("18 dollars per day" has three).
        plain: Whether it was written in digits, not in words or as the result of an equation.
        name: What it is equated with, such as "x".
        reduced: False for a fraction such as 6/8, which may be a date, a score or a task.
    """

    value: Fraction
    percent: bool = False
    unit: tuple[str, ...] = ()
    plain: bool = True
    name: str = ""
    reduced: bool = True


@lru_cache(maxsize=32)  # several rules read an answer, and a group's samples one reference
def parse_number(text: str) -> Number | None:
    """Parse the whole of `text` as one number.

    Args:
        text: A short text, such as the text after an answer marker.

    Returns:
        The number, or None if any part of the text is not understood: lists, ranges, estimates,
        unevaluated arithmetic, times, exponents, digits of other scripts, more than `MAX_DIGITS`
        digits or `MAX_TEXT` characters.
    """
    if len(text) > MAX_TEXT:
        return None
    clean = _clean(text)
    if clean is None:
        return None
    left, equals, right = clean.rpartition("=")
    left = left.removeprefix("$")
    if not equals:
        return _parse_plain(clean)
    number = _parse_plain(right.strip())
    if number is None or "(" in right or ")" in right or not _may_equate(left):
        return None
    stated = _parse_plain(left.strip())
    if stated is not None and stated.value != number.value:
        return None
    name = left.strip() if _NAME.fullmatch(left) else ""
    return replace(number, plain=False, name=name)


def words_value(words: Sequence[str]) -> int | None:
    """Parse English number words as one number.

    Args:
        words: Words in lower case and without hyphens, such as ["one", "hundred", "and", "five"].

    Returns:
        The value, or None if the words are not one well-formed number ("twenty twelve").
    """
    total, group, last_scale = 0, 0, 10**15
    room = 100  # the next small word must be below this
    previous = ""
    for position, word in enumerate(words):
        if word == "and":
            if previous not in SCALE_WORDS or position == len(words) - 1:
                return None
        elif word in SMALL_WORDS or word in TENS_WORDS:
            value = SMALL_WORDS.get(word, TENS_WORDS.get(word, 0))
            if value >= room or (value == 0 and len(words) > 1):
                return None
            group += value
            room = 10 if value >= 20 else 0
        elif word == "hundred":
            if not 0 < group < 100 or group % 10 == 0:
                return None
            group, room = group * 100, 100
        elif word in SCALE_WORDS:
            scale = SCALE_WORDS[word]
            if not group or scale >= last_scale:
                return None
            total, group, last_scale, room = total + group * scale, 0, scale, 100
        elif word == "a" and position == 0 and words[1:2] and words[1] in SCALE_WORDS:
            group, room = 1, 0
        else:
            return None
        previous = word
    return total + group if words else None


def _clean(text: str) -> str | None:
    broken = _BROKEN.search(text)
    text = text.translate(_CHARACTERS)
    # Only printable ASCII: digits of other scripts, superscripts and invisible or bidirectional
    # characters can display a number other than the one parsed here.
    if broken or not text.isascii() or not text.isprintable() or ".." in text:
        return None
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    if _DIGITS_IN_BRACES.search(text):
        return None
    text = text.replace("{", "").replace("}", "").lower()
    text = _GAP.sub(" ", text)
    return text.lstrip(" *_`\"':").rstrip(" *_`\"'.,:;")


def _may_equate(left: str) -> bool:
    if _NAME.fullmatch(left):
        return not (UNIT_DOUBTS | MODIFIER_WORDS | NUMBER_WORDS).intersection(left.split())
    return bool(_ARITHMETIC.fullmatch(left)) and left.count("(") == left.count(")")


def _parse_plain(text: str) -> Number | None:
    match = _FRACTION.match(text) or _DECIMAL.match(text)
    if match is None:
        return None
    if "top" in match.groupdict():
        value = _fraction_value(match)
    elif match["whole"] or match["part"]:
        value = _decimal_value(match)
    else:
        return _parse_words(text)
    if value is None or (match["sign"] and match["inner_sign"]):
        return None
    if "-" in (match["sign"], match["inner_sign"]):
        value = -value
    number = _with_unit(value, text[match.end() :], plain=True)
    if number is None or "top" not in match.groupdict():
        return number
    return replace(number, reduced=math.gcd(int(match["top"]), int(match["bottom"])) == 1)


def _parse_words(text: str) -> Number | None:
    match = _SPELLED.match(text)
    value = words_value(re.split("[ -]", match[0])) if match else None
    if match is None or value is None:
        return None
    return _with_unit(Fraction(value), text[match.end() :], plain=False)


def _decimal_value(match: re.Match[str]) -> Fraction | None:
    whole = re.sub(r"[ ,]", "", match["whole"] or "0")
    part = match["part"] or ""
    return Fraction(whole + part) if len(whole) + len(part) <= MAX_DIGITS else None


def _fraction_value(match: re.Match[str]) -> Fraction | None:
    whole, top, bottom = match["whole"] or "0", match["top"], match["bottom"]
    if len(whole) + len(top) + len(bottom) > MAX_DIGITS or int(bottom) == 0:
        return None
    if int(top) % int(bottom) == 0 or (match["whole"] and int(top) > int(bottom)):
        return None  # 36/2 is arithmetic
    return int(whole) + Fraction(int(top), int(bottom))


def _with_unit(value: Fraction, rest: str, *, plain: bool) -> Number | None:
    rest = re.sub(r"^ ?\$+", "", rest)
    percent = re.match(r" ?%| per ?cent\b(?!age)", rest)
    if percent:
        rest = rest[percent.end() :]
    rest = _ALTOGETHER.sub("", rest)
    attached = re.match(r"[a-z]*", rest)
    if attached and not _ATTACHED_UNIT.fullmatch(attached[0]):
        return None
    rates = re.sub(r"(?<=[a-z]) ?/", " per ", rest)
    words = [word for word in re.split(r"[ /()-]+", rates.rstrip("$ ")) if word]
    if words and words[0] in SCALE_WORDS and not percent and rest[0] == " ":
        value, plain = value * SCALE_WORDS[words[0]], False
        del words[0]
    if _DANGLING.search(rest) or rest.count("(") != rest.count(")"):
        return None
    if not re.fullmatch(r"[a-z' /()-]*[$ ]*", rest):
        return None
    if len(words) > MAX_UNIT_WORDS or not all(_is_unit_word(word) for word in words):
        return None
    if words and words[-1] in _CUT_OFF:
        return None
    return Number(value, bool(percent), tuple(words), plain)


def _is_unit_word(word: str) -> bool:
    if word in NUMBER_WORDS or word in MODIFIER_WORDS or not _UNIT_WORD.fullmatch(word):
        return False
    if word.endswith(_NO_UNIT_ENDINGS) and word not in RATES:
        return False
    if may_be_numbers([word]):
        return False
    return len(word) > 2 or word in SHORT_UNITS
