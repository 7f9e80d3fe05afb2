"""Whether two numbers of equal value are the same amount."""

from __future__ import annotations

import re
from itertools import takewhile

from reward_serve.rules.numbers.parsing import Number
from reward_serve.rules.numbers.words import MEASURES, word_list

_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "second sec s", "minute min", "hour hr h", "gram g", "kilogram kg kgs", "pound lb lbs",
        "ounce oz", "meter metre m", "kilometer kilometre km", "centimeter centimetre cm",
        "millimeter millimetre mm", "foot feet ft", "inch inches", "yard yd yds", "mile mi",
        "liter litre l", "milliliter millilitre ml", "dollar usd buck", "cent penny pennies pence",
        "degree deg", "person people", "child children", "day daily", "week weekly",
        "month monthly", "year yearly annually", "hour hourly",
    )
    for word in word_list(group)
}  # fmt: skip
UNIT_WORDS = MEASURES | frozenset(
    word_list(
        "per an a square cubic sq cu dollars dollar euros euro degrees celsius fahrenheit kelvin"
    )
)
_CLAUSE = re.compile(
    r"(?:\\(?:text|textrm|mathrm|mbox)|\\[,;:! ]|</[a-z]{1,9}>|[ \n\[\]$~{}()*_\\]|[a-z%]|\^)*",
    re.IGNORECASE,
)
_NO_UNIT = frozenset(word_list("after from every per for each because since as"))
_LABEL = re.compile(
    r"(?:\W{0,40}units?\W{1,9}|[\s$]{0,9}(?:\\(?:text|mathrm) ?\{ ?)?(?=in\W{0,9}\Z))([a-z]+)",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"\bin ([a-z]+)\W{0,20}\Z|\b([a-z]+)\)?(?: (?:is|are|was)\b|[ *]{0,3}[=:])[^\w.,]{0,20}\Z",
    re.IGNORECASE,
)
MAX_LEAD = 60  # characters
MAX_BEFORE_UNIT = 4  # words: "2 full hours"
_WORD = re.compile(r"(?<!\\)\b[a-z]+|%")
_SIGN = re.compile(r"[$\s]*([\u00a2\u00a3\u20ac\u00a5\u20b9])")
_STATED = UNIT_WORDS - {"per", "an", "a"}
_FILLERS = frozenset(["a", "an", "each", "every", "per", "of", "total", "the", "altogether"])
_FEET = re.compile(  # 5' and 5"
    r"(?<=\d)['\"](?=[\s.$]*$)"
)
_PRODUCT = re.compile(r"\dm?g(?=[\s.$}*]*$)")  # 2mg may be m times g
_BITS = re.compile(r"(?<![A-Za-z\\])[kKMmGgTt][BbWw](?![A-Za-z])")  # MB are not Mb
_POWERS = frozenset(["per", "an", "square", "cubic", "sq", "cu"])
_CURRENCIES = re.compile(
    r"[$\u00a3\u20ac\u00a5\u20b9]|\b(?:us|ca|au)d?(?=\s?\$)|\b(?:dollar|euro|rupee|usd|eur|yen)(?=s?\b)"
)
_CURRENCY_WORDS = {
    "dollar": "$",
    "usd": "$",
    "euro": "\u20ac",
    "eur": "\u20ac",
    "rupee": "\u20b9",
    "yen": "\u00a5",
}
_MATH_DOLLARS = re.compile(r"\$([^$\n]{1,80})\$")
# 123 456 may be a list, and so may 100,200,300 in a reference that another writes as 100200300.
_SPACED = re.compile(r"(?<![\d,.])\d{3}(?: \d{3})+(?![\d.])")
_LIST = re.compile(rf"{_SPACED.pattern}|(?<![\d,.])\d{{3}}(?:,\d{{3}}){{2,}}(?![\d.])")


def units_conflict(number: Number, other: Number, texts: tuple[str, str]) -> bool:
    """Whether both numbers have a unit, a currency or a name, and not the same.

    Args:
        number: one number.
        other: the other.
        texts: the texts that they were parsed from.
    """
    units, others = _units(number), _units(other)
    if units and others and not (units <= others or others <= units):
        return True
    if units and others and _POWERS & set(number.unit) != _POWERS & set(other.unit):
        return True
    if any(map(_PRODUCT.search, texts)) and not (units and others):
        return True
    if units and others and not MEASURES.isdisjoint(units ^ others):
        return True  # 60 miles are not 60 miles a day
    short, shorts = (set(_BITS.findall(text)) for text in texts)
    if short != shorts and {each.lower() for each in short} == {each.lower() for each in shorts}:
        return True
    if number.name and other.name and number.name != other.name:
        return True
    mark, gold = (_FEET.search(text) for text in texts)
    if (gold and (not mark or mark[0] != gold[0])) or (mark and other.unit):
        return True
    currencies = [_currencies(_MATH_DOLLARS.sub(r"\1", text.lower())) for text in texts]
    return all(currencies) and currencies[0] != currencies[1]


def unit_around(response: str, start: int, end: int) -> str:
    r"""The unit that stands outside of an answer's box or tag, after a space; empty without one.

    It may be a label ('"unit": "hours"'), precede the answer ("In hours, \boxed{2}") or follow it.

    Args:
        response: the text with the answer.
        start: where the answer's marker starts, in characters.
        end: where the answer ends.
    """
    if label := _LABEL.match(response, end):
        return f" {label[1]}"
    lead = _BEFORE.search(response, max(0, start - MAX_LEAD), start)
    word = (lead[1] or lead[2]) if lead else ""
    if word.lower() in MEASURES:
        return f" {word}"
    return _unit_after(response[end:])


def _unit_after(tail: str) -> str:
    r"""The unit at the start of a text: " hours" of "$ \text{ hours}."."""
    if sign := _SIGN.match(tail):
        return sign[1]
    clause = _CLAUSE.match(tail)
    words = _WORD.findall(clause[0].lower() if clause else "")[: 2 * MAX_BEFORE_UNIT]
    words = list(takewhile(lambda word: word not in _NO_UNIT, words))
    place = (at for at, word in enumerate(words[:MAX_BEFORE_UNIT]) if word in _STATED)
    unit = takewhile(UNIT_WORDS.__contains__, words[next(place, len(words)) :])
    return " ".join(["", *unit])


def _currencies(text: str) -> set[str]:
    return {_CURRENCY_WORDS.get(found, found) for found in _CURRENCIES.findall(text)}


def may_be_list(answer: str, reference: str) -> bool:
    """Whether only one of the texts is grouped as a list of three-digit numbers might be."""
    if answer.strip() == reference.strip():
        return False
    text, gold = _SPACED.search(answer), _LIST.search(reference)
    return bool(text or gold) and (text and text[0]) != (gold and gold[0])


def _units(number: Number) -> frozenset[str]:
    words = (singular(word) for word in number.unit)
    return frozenset(word for word in words if word not in _FILLERS)


def singular(word: str) -> str:
    """The unit's first name, in the singular: "hour" for "hrs"."""
    word = word.removesuffix("'s").removesuffix("'")
    for form in (word, word.removesuffix("s"), word.removesuffix("es")):
        if form in _SYNONYMS:
            return _SYNONYMS[form]
    return word.removesuffix("s") if len(word) > 3 else word
