"""Whether two numbers of equal value are the same amount."""

from __future__ import annotations

import re

from reward_serve.rules.numbers.parsing import Number
from reward_serve.rules.numbers.words import word_list

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
_FILLERS = frozenset(["a", "an", "each", "every", "per", "of", "total", "the", "altogether"])
_CURRENCIES = re.compile(r"[$\u00a3\u20ac\u00a5\u20b9]|\b(?:us|ca|au)d?(?=\s?\$)", re.IGNORECASE)
_MATH_DOLLARS = re.compile(r"\$[^$\n]{1,80}\$")
# 123 456 may be a list, and so may 100,200,300 in a reference that another writes as 100200300.
_SPACED = re.compile(r"(?<![\d,.])\d{3}(?: \d{3})+(?![\d.])")
_LIST = re.compile(rf"{_SPACED.pattern}|(?<![\d,.])\d{{3}}(?:,\d{{3}}){{2,}}(?![\d.])")


def units_conflict(number: Number, other: Number, texts: tuple[str, str]) -> bool:
    """Whether both numbers have a unit or a currency, and not the same.

    Args:
        number: one number.
        other: the other.
        texts: the texts that they were parsed from.
    """
    units, others = _units(number), _units(other)
    if units and others and not (units <= others or others <= units):
        return True
    currencies = [set(_CURRENCIES.findall(_MATH_DOLLARS.sub("", text.lower()))) for text in texts]
    return all(currencies) and currencies[0] != currencies[1]


def may_be_list(answer: str, reference: str) -> bool:
    """Whether only one of the texts is grouped as a list of three-digit numbers might be."""
    if answer.strip() == reference.strip():
        return False
    text, gold = _SPACED.search(answer), _LIST.search(reference)
    return bool(text or gold) and (text and text[0]) != (gold and gold[0])


def _units(number: Number) -> frozenset[str]:
    words = (_singular(word) for word in number.unit)
    return frozenset(word for word in words if word not in _FILLERS)


def _singular(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("'")
    for form in (word, word.removesuffix("s"), word.removesuffix("es")):
        if form in _SYNONYMS:
            return _SYNONYMS[form]
    return word.removesuffix("s") if len(word) > 3 else word
