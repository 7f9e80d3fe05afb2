"""What a critique must not tell: a reference's answer, which the policy would learn to copy."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from reward_serve_answers import final_answer

# Scripts without spaces between words, and Hangul, whose particles follow without one.
_UNSPACED = r"\u0e00-\u11ff\u1780-\u17ff\u2e80-\U0010ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_ALONE = rf"(?<![^\W{_UNSPACED}])(?<![a-z]['\u2019])(?:%s)(?![^\W{_UNSPACED}])"
# The letter a, but not the article.
_LETTER_A = rf"(?-i:[a-z,;]\s+['\"(*]*{_ALONE % 'A'})|{_ALONE % 'a'}" + (
    r"(?!\s+(?!(?:and|as|because|but|fits|instead|is|isn|not|or|rather|since|was|would)\b)\w)"
)
# Of an answer, with its text or alone: "(B) Paris", "B. Paris", "B".
_OPTION = re.compile(r"[\W_]*?(?:([A-J])\s*(?:[)\]}.:,\u3001]|-\s|\Z)|[(\[{]([a-z])[)\]}])")
_PARTS = re.compile(r"[,;:/|()\[\]{}\n\u3001]|\b(?:and|or)\b", re.IGNORECASE)
_MARKUP = re.compile(r"\\(?:text|math|left|right|boxed|mbox|displaystyle)[a-z]*|\\[,;!: ]|\$")
_SMALL = re.compile("[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u215f]")
_FRACTION = re.compile(r"\\[dtc]?frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,|\s)(?=\d{3}(?!\d))")
_NUMBER = r"\d{1,300}(?:\.\d{1,300})?|\.\d{1,300}"
_VALUE = re.compile(rf"(?:(\d{{1,300}})\s+)?({_NUMBER})\s*(?:[/\u2044]\s*({_NUMBER})|(\\?%))?")


def tells(text: str, reference: str) -> bool:
    """Whether a text has a reference's option, number or, without numbers, the words of a part."""
    said, gold = _plain(text), _plain(final_answer(reference)[-2_000:])
    option = _OPTION.match(gold)
    parts, gold = ([option[1] or option[2]], gold[option.end() :]) if option else ([], gold)
    values = _values(gold)
    rounded = {round(v, n) for v in values if v.denominator > 1 for n in range(1, 7)}
    if not (values | rounded).isdisjoint(_values(said)):
        return True
    parts += [] if values else _PARTS.split(gold)
    return any(_tells_word(said, part) for part in parts)


def _plain(text: str) -> str:
    """The text without markup, accents and invisible characters, its fractions with a slash."""
    text = _SMALL.sub(r" \g<0>", _FRACTION.sub(r" \1\2/\3\4 ", _MARKUP.sub(" ", text)))
    plain = unicodedata.normalize("NFKD", text)
    return "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Cf"))


def _tells_word(said: str, part: str) -> bool:
    words = " ".join(_WORD.findall(part.casefold())) or part.strip()
    if len(words) == 1:
        pattern = _LETTER_A if words == "a" else _ALONE % re.escape(words)
        return re.search(f"(?i){pattern}", said) is not None
    end = " " if len(words) < 4 else ""  # a longer one may have an ending
    return bool(words) and f" {words}{end}" in f" {' '.join(_WORD.findall(said.casefold()))} "


def _values(text: str) -> set[Fraction]:
    """The numbers in a text, without signs, and the values of its fractions and percentages."""
    values = set[Fraction]()
    for whole, number, under, percent in _VALUE.findall(_THOUSANDS.sub("", text)):
        values |= {Fraction(each) for each in (whole, number, under) if each}
        if under and Fraction(under):
            values |= {(value := Fraction(number) / Fraction(under)), value + Fraction(whole or 0)}
        elif percent:
            values.add(Fraction(number) / 100)
    return values
