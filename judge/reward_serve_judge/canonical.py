r"""Rewrite the numbers of a text in plain digits, so that a judge compares values, not notations.

    canonical("So she pays \$1{,}800.00, or one thousand eight hundred dollars.")
    # "So she pays 1800, or 1800 dollars."
    canonical("three and a half, 3 1/2, 3.50 or \frac{7}{2}")  # "3.5, 3.5, 3.5 or 3.5"
    canonical("18k is 1.8 x 10^4 and not 18 percent")          # "18000 is 18000 and not 18%"
    canonical("17:30, 2 hours 40 minutes, 0x1F")               # "5:30 PM, 160 minutes, 31"

Other text is left unchanged: lists, tuples and intervals such as "[0,1)", terms such as "2k", and
arithmetic. Only a judge reads the result; no rule relies on it, so an ambiguous number may be
rewritten by its likeliest reading.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from functools import partial
from itertools import groupby

from reward_serve_judge.measures import MEASURES
from reward_serve_judge.notation import applied, plain_formulas, steps

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen"""
SMALL_WORDS = {word: value for value, word in enumerate(_SMALL.split())}
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS_WORDS = {word: 10 * value for value, word in enumerate(_TENS.split(), 2)} | {"fourty": 40}
_SCALE_WORDS = {
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_LONGEST_FIRST = sorted(
    SMALL_WORDS.keys() | TENS_WORDS.keys() | _SCALE_WORDS.keys(),
    key=lambda word: (word[0], -len(word)),
)
_BY_LETTER = groupby(_LONGEST_FIRST, key=lambda word: word[0])  # other words are left at once
_NUMBER_WORD = "|".join(
    f"{letter}(?:{'|'.join(word[1:] for word in words)})" for letter, words in _BY_LETTER
)
_NUMBER_WORD = f"(?:{_NUMBER_WORD})"


def _words_value(words: list[str]) -> int | None:
    """The value of words such as ["one", "hundred", "and", "five"]; None for "twenty twelve"."""
    total, group, last_scale = 0, 0, 10**15
    room = 100  # the next small word must be below this
    previous = ""
    for position, word in enumerate(words):
        if word == "and":
            if previous not in _SCALE_WORDS or position == len(words) - 1:
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
        elif word in _SCALE_WORDS:
            scale = _SCALE_WORDS[word]
            if not group or scale >= last_scale:
                return None
            total, group, last_scale, room = total + group * scale, 0, scale, 100
        elif word == "a" and position == 0 and words[1:2] and words[1] in _SCALE_WORDS:
            group, room = 1, 0
        else:
            return None
        previous = word
    return total + group if words else None


_DEGREE_SIGN = r"\^\s?\{?\s?\\circ\s?\}?|\\degree\b"
_TYPOGRAPHY = {
    **dict.fromkeys("\u2212\u2010\u2011\ufe63\uff0d", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2005\u2007\u2008\u2009\u200a\u202f", " "),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
}
_MAX_DIGITS = 40
_PIECE = 2**16  # characters; a longer text is rewritten in pieces, each a call that holds the GIL
_PLACES = 6  # decimals to which a repeating decimal is rounded
_MAX_WORDS = 24  # in one number

_CHARACTERS = str.maketrans(
    {
        **_TYPOGRAPHY,
        "\u017f": "s",
        "\u2044": "/",
        "\uff0c": ",",
        "\uff0e": ".",
        "\uff05": "%",
        "\uff04": "$",
    }
)
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_VULGAR = re.compile(r"(\d)([\u00bc-\u00be\u2150-\u215e])")
_PARTS = {
    **dict.fromkeys(("half", "halves"), 2),
    **dict.fromkeys(("third", "thirds"), 3),
    **dict.fromkeys(("quarter", "quarters", "fourth", "fourths"), 4),
    **dict.fromkeys(("fifth", "fifths"), 5),
    **dict.fromkeys(("sixth", "sixths"), 6),
    **dict.fromkeys(("eighth", "eighths"), 8),
    **dict.fromkeys(("tenth", "tenths"), 10),
}
_SCALES: dict[str, int | Fraction] = {
    **_SCALE_WORDS,
    "k": 10**3,
    **dict.fromkeys(("m", "mn"), 10**6),
    "bn": 10**9,
    **{"score": 20, "lakh": 10**5, "crore": 10**7},
    **dict.fromkeys(("per mille", "permille", "parts per thousand"), Fraction(1, 1000)),
    **dict.fromkeys(("basis point", "basis points"), Fraction(1, 10_000)),
    **dict.fromkeys(("ppm", "parts per million"), Fraction(1, 10**6)),
}
_LESS_COMMON = (
    "score|lakh|crore|per mille|permille|parts per (?:thousand|million)|basis points?|ppm"
)
_NUMERAL = r"(?<![\w.])(\d{1,40}(?:\.\d{1,40})?)"
_TEN = r"10\s?(?:\^|\*\*)\s?(?:\{(-?\d{1,3})\}|(-?\d{1,3}))"
_POWER_OF_TEN = rf"\s?[x×*·]\s?{_TEN}|e([+-]?\d{{1,3}})"
_DEGREES = rf"(?:{_DEGREE_SIGN}|°)"
_PART = "halves|half|" + "|".join(
    f"{part}s?" for part in ("third", "quarter", "fourth", "fifth", "sixth", "eighth", "tenth")
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_OPENS = re.compile(r"(?:[(\[]|\\\{|(?<![\w}\]])\{)\s?$")
_CLOSES = re.compile(r"\s?(?:[)\]]|\\?\}|\\right)")
_COUNTED = re.compile(r"\s?(?:[€£$%°]|(?!(?:and|or|und|oder|y|o|et|ou|e|i|lub)\b)[^\W\d_])")
_SUM_BEFORE = re.compile(r"(?:[^\WkK]|[)\]}])\s?[-+^]\s?$")
_SUM_AFTER = re.compile(r"\s?(?:\\[a-z]|\^|[-+]\s?(?:\d+(?!\s?k)|[a-z\\(]))", re.IGNORECASE)
_OPERAND = re.compile(r"(?:[\d)%\]}]|(?<![^\W\d_])[^\W\d_])\s?$")


def canonical(text: str) -> str:
    """The text with its numbers in plain digits: no words, separators, currency signs or scales.

    A text of more than 65,536 characters is rewritten in pieces that end with a line or a word.

    Args:
        text: any text.
    """
    out, start = [], 0
    while len(text) - start > _PIECE:
        window = text[start : start + _PIECE]
        end = start + (window.rfind("\n") + 1 or window.rfind(" ") + 1 or _PIECE)
        out.append(_canonical(text[start:end]))
        start = end
    return "".join([*out, _canonical(text[start:])])


def _canonical(text: str) -> str:
    if not text.isascii():
        text = _VULGAR.sub(r"\1 \2", text)
        text = _FOREIGN.sub(_plain, text.translate(_CHARACTERS))
    return applied(_STEPS, plain_formulas(text))


def _plain(match: re.Match[str]) -> str:
    character = match[0]
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Cf":
        return ""
    if category == "No" and "\u2044" in (parts := unicodedata.normalize("NFKC", character)):
        return parts.replace("\u2044", "/")
    return character


def _digits(value: Fraction) -> str:
    """The value with at most ``_PLACES`` decimals, without trailing zeros."""
    whole, rest = divmod(abs(round(value * 10**_PLACES)), 10**_PLACES)
    decimals = f"{rest:0{_PLACES}}".rstrip("0")
    sign = "-" if value < 0 and (whole or rest) else ""
    return f"{sign}{whole}{'.' if decimals else ''}{decimals}"


def _words(match: re.Match[str]) -> str:
    """A run of number words with its numbers as digits."""
    pieces = re.split(r"(,? (?:and )?|-)", match[0], flags=re.IGNORECASE)
    out, start = [], 0
    while start < len(pieces):
        number, end = _longest_number(pieces, start)
        out.append(number)
        out.extend(pieces[end : end + 1])
        start = end + 1
    return "".join(out)


def _longest_number(pieces: list[str], start: int) -> tuple[str, int]:
    """The longest number that starts with the word at ``start``, or that word, and its end.

    Every prefix of a number is a number too, except the "a" of "a hundred".
    """
    number, stop = pieces[start], start + 1
    for end in range(start + 1, min(len(pieces), start + 2 * _MAX_WORDS + 1) + 1, 2):
        words = "".join(pieces[start:end]).lower().replace(",", "").replace("-", " ").split()
        value = _words_value(words)
        if value is not None:
            number, stop = str(value), end
        elif end > start + 1:
            break
    return number, stop


def _around(match: re.Match[str]) -> tuple[str, str]:
    """The characters before and after a match that decide what it is."""
    text, start, end = match.string, match.start(), match.end()
    return text[max(0, start - 8) : start], text[end : end + 16]


def _grouped(match: re.Match[str]) -> str:
    return re.sub(r"\D", "", match[1]) + (match[2] or "")


def _decimal(match: re.Match[str]) -> str:
    text = match[0]
    if len(text) > _MAX_DIGITS or (text[0] == "0" and text[1:2].isdigit()):
        return text
    if len(text) - text.index(".") <= _PLACES + 1:
        return text.rstrip("0").rstrip(".")
    return _digits(Fraction(text))


def _fraction(match: re.Match[str]) -> str:
    whole, top, bottom = int(match[1] or 0), int(match[2]), int(match[3])
    if not bottom or top % bottom == 0 or (match[1] and top > bottom):
        return match[0]  # 36/2 is arithmetic
    return _digits(whole + Fraction(top, bottom))


def _named_part(match: re.Match[str]) -> str:
    bottom = _PARTS[match[2].lower()]
    top = 1 if match[1].lower() == "a" else int(match[1])
    return _digits(Fraction(top, bottom))


def _decimal_comma(match: re.Match[str]) -> str:
    """For example 18.5 for "18,5", unless the two may be elements of a list."""
    before, after = _around(match)
    bracketed = _OPENS.search(before) and _CLOSES.match(after)
    listed = (len(match[0]) == 3 and match[1] != "0") or before.endswith("-")
    if bracketed or (listed and before[-1:] not in ("€", "$") and not _COUNTED.match(after)):
        return match[0]
    return f"{match[1]}.{match[2]}"


def _ten(match: re.Match[str]) -> str:
    exponent = int(match[1] or match[2])
    return str(10**exponent) if 0 <= exponent <= 15 else match[0]


def _frac(match: re.Match[str]) -> str:
    r"""For example -7/4 for "\frac{7}{-4}" and 7/4 for "-\frac{-7}{4}"."""
    sign, top, bottom = match[1] or "", int(match[2]), int(match[3])
    negative = (top < 0) != (bottom < 0)
    if sign and negative:
        if _OPERAND.search(_around(match)[0]):
            return match[0]
        sign, negative = "", False
    return f"{sign}{'-' if negative else ''}{abs(top)}/{abs(bottom)}"


def _scaled(match: re.Match[str]) -> str:
    before, after = _around(match)
    term = match[2] == "k" and len(match[1]) == 1
    if term and (_SUM_AFTER.match(after) or _SUM_BEFORE.search(before)):
        return match[0]  # "2k + 1"
    return _digits(Fraction(match[1]) * _SCALES[match[2].lower()])


def _power(match: re.Match[str]) -> str:
    exponent = int(match[2] or match[3] or match[4])
    if abs(exponent) > 15:
        return match[0]
    return _digits(Fraction(match[1]) * Fraction(10) ** exponent)


_steps = partial(steps, flags=re.IGNORECASE)
_pattern = re.compile
_CURRENCIES = "$€£¥₹"
_STEPS = (
    _steps(("{,}", "\\"), (r"(?<=\d)(?:\{,\}|\\,|\\!|\{,\}\\!)(?=\d{3})", ",")),
    _steps("\\",
        (r"(?<=\d)\s?(?=\\[dtc]?frac)", " "),
        (r"(-\s?)?\\[dtc]?frac\s?\{\s?(-?\d+)\s?\}\s?\{\s?(-?\d+)\s?\}", _frac),
        (r"\\[dtc]?frac\s?(\d)(\d)(?!\d)", r"\1/\2"),
        (r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|bf|bm)\s?\{([^{}]*)\}", r"\1"),
        (r"\\([$%])", r"\1"),
        (r"\\times\b|\\cdot(?=\s?10\s?[\^⁰¹²³⁴-⁹⁻])", "x")),
    _steps("⁰¹²³⁴⁵⁶⁷⁸⁹⁻",
        (r"(?<![\d.,])10([⁰¹²³⁴-⁹⁻]{1,3})", lambda m: f"10^{m[1].translate(_SUPERSCRIPTS)}")),
    # words
    _steps((),
        (rf"\b(?:a (?=hundred|thousand|million))?{_NUMBER_WORD}"
         rf"(?:(?:, |,? and | |-){_NUMBER_WORD})*\b", _words)),
    *MEASURES,
    _steps((" point ",),
        (rf"{_NUMERAL} point (\d(?: ?\d)*)\b", lambda m: f"{m[1]}.{m[2].replace(' ', '')}")),
    # separators, decimal commas
    _steps(_pattern(r"[,'_]\d{3}"),
        (r"(?<![\d.,[])(?<!\\\{)(\d{1,3}(?:[,'_]\d{3})+)(?!\d|,\d)(\.\d+)?", _grouped)),
    _steps(_pattern(r"\d \d{3}"),
        (r"(?<![\d.,])(?<!\d )(\d{1,3}(?: \d{3}){1,3})(?!\d| \d)(\.\d+)?", _grouped)),
    _steps(_pattern(r",\d"),
        (r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?![\d,]|\.\d)",
         lambda m: f"{m[1].replace('.', '')}.{m[2]}"),
        (r"(?<![\d.,])(\d+),(\d{1,2})(?![\d,]|\.\d)", _decimal_comma)),
    _steps(".", (r"\.(?<![\w.]\.)(\d+)", r"0.\1")),
    # currency
    _steps(_CURRENCIES, (r"([-+]?)[$€£¥₹]\s?([-+]?)(?=\d)", r"\1\2")),
    _steps((*_CURRENCIES, ",-", ".-", ",–", ".–", ",—", ".—"),
        (r"(\d)(?:\s?[€£₹]|\$|[,.][-–—](?!\s?\w))", r"\1")),
    _steps((" cent",),
        (rf"{_NUMERAL} dollars? and (\d{{1,2}}) cents?\b", lambda m: f"{m[1]}.{m[2]:0>2} dollars")),
    # powers, scales
    _steps(_pattern(r"\d(?:\s?[xX×*·]\s?10|[eE][+-]?\d)"),
        (rf"{_NUMERAL}(?:{_POWER_OF_TEN})(?!\w)", _power)),
    _steps(_pattern(r"10\s?[\^*]"),
        (rf"(?<![\w.^)}}\]])(?<!\^\{{)(?<![x×*·/] ){_TEN}(?![\d.])", _ten)),
    _steps(("thousand", "million", "billion", "hundred"),
        (rf"{_NUMERAL}\s?(thousand|million|billion|hundred)s?(?!\w)", _scaled)),
    _steps(("score", "lakh", "crore", "mille", "parts per", "basis", "ppm"),
        (rf"{_NUMERAL}\s({_LESS_COMMON})(?!\w)", _scaled)),
    _steps(_pattern(r"\d(?:k|K|M|mn|bn)"), (rf"{_NUMERAL}((?-i:k|K|M|mn|bn))(?!\w)", _scaled)),
    # fractions
    _steps(("hal", "third", "quarter", "fourth", "fifth", "sixth", "eighth", "tenth"),
        (rf"{_NUMERAL} and (?:an?|(\d+))[ -]({_PART})\b",
         lambda m: _digits(Fraction(m[1]) + Fraction(m[2] or 1) / _PARTS[m[3].lower()])),
        (rf"\b(\d{{1,6}}|a(?= half| quarter))[ -]({_PART})\b", _named_part)),
    _steps("/",
        (r"(?<![\w./,^])(?:(\d{1,6})(?: | and ))?(?<![\w./,^])(\d{1,6}) ?/ ?(\d{1,6})"
         r"(?![\d/]|[.,]\d)", _fraction)),
    # units
    _steps("\\°",
        (rf"(?<=\d)\s?{_DEGREES}\s?(?=[A-Za-z])", " degrees "),
        (rf"(?<=\d)\s?{_DEGREES}", " degrees")),
    _steps("/",
        (r"(?<=\d)\s?/\s?(?=(?!(?:ln|log|sin|cos|tan|exp|sqrt|pi)\b)(?:[a-z]{2}|h\b))", " per ")),
    _steps((),
        (r"(\d)(?=(?!(?:st|nd|rd|th|pi|sqrt|cbrt|sin|cos|tan|log|ln)\b)"
         r"(?:[a-z]{2,}|(?-i:[ghlLm]))\b)", r"\1 ")),
    # zeros, percent, signs
    _steps(".", (r"(?<![\d.])\d+\.\d+(?!\.?\d)", _decimal)),
    _steps(("%", "percent", "per cent", "pct"),
        (r"(?<=\d)\s?(?:%|percent\b|per cent\b|pct\b)", "%")),
    _steps(("negative", "minus"),
        (r"\b(?:negative|minus)\s+(?=\d)(\d+(?:\.\d+)?)",
         lambda m: m[0] if _OPERAND.search(_around(m)[0]) else f"-{m[1]}")),
    _steps("-", (r"(?<=[=:(])(\s?)- (?=\d)", r"\1-")),
    _steps("+", (r"\+(?=\d)(?:(?<=^\+)|(?<=[$({[:=*,→]\+)|(?<=[:=#,→] \+)|(?<=\bis \+))", "")),
)  # fmt: skip
