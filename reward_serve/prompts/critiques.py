"""What a critique must not tell: a reference's answer, which the policy would learn to copy."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from reward_serve_answers import final_answer

# In scripts without spaces, and in Hangul, whose particles follow without one, a character.
_UNSPACED = r"\u0e00-\u11ff\u1780-\u17ff\u2e80-\U0010ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
# What is no option's letter: an article, and the ends of "isn't" and "I'd".
_NO_LETTER = re.compile(
    r"(?:\ba|(?<![a-z,;]\s)\bA)(?=\s+\w)(?!\s+(?:and|as|because|but|fits|instead|is|isn|not|or"
    r"|rather|since|was|would)\b)|(?<=[A-Za-z])['\u2019][A-Za-z]+"
)
# Of an answer, with its text or alone: "(B) Paris", "B. Paris", "B".
_OPTION = re.compile(r"[\W_]*?(?:([A-J])\s*(?:[)\]}.:,\u3001]|-\s|\Z)|[(\[{]([a-z])[)\]}])")
_PARTS = re.compile(r"[,;:/|()\[\]{}\n\u3001]|\b(?:and|or)\b", re.IGNORECASE)
_MARKUP = re.compile(r"\\(?:text|math|left|right|boxed|mbox|displaystyle)[a-z]*|\\[,;!: ]|\$")
_SMALL = re.compile("[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u215f]+")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\}|\\,|\s)(?=\d{3}(?!\d))")
_NUMBER = re.compile(r"\d{1,300}(?:\.\d{1,300})?|\.\d{1,300}")
_FRACTION = re.compile(r"\\[dtc]?frac|[/\u2044]\s*[\d.]")


def tells(text: str, reference: str) -> bool:
    """Whether a text has a reference's option, number or, without numbers, the words of a part.

    A fraction may have the value of any number, and the other way round.
    """
    critique, gold = _plain(text), _plain(final_answer(reference)[-2_000:])
    option = _OPTION.match(gold)
    parts, gold = ([option[1] or option[2]], gold[option.end() :]) if option else ([], gold)
    values, others = (set(map(Fraction, _NUMBER.findall(t))) for t in (gold, critique))
    fractional = "%" in gold or any(value.denominator > 1 for value in values)
    if fractional or _FRACTION.search(f"{gold} {critique}"):
        is_told = bool(values and others)
    else:
        is_told = bool(values & others)
    parts += [] if values else _PARTS.split(gold)
    return is_told or any(_tells_words(critique, part.strip()) for part in parts)


def _plain(text: str) -> str:
    """The text without markup, accents, invisible characters and separators of thousands."""
    plain = unicodedata.normalize("NFKD", _SMALL.sub(r" \g<0>", _MARKUP.sub(" ", text)))
    visible = "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Cf"))
    return _THOUSANDS.sub("", visible)


def _tells_words(critique: str, part: str) -> bool:
    spaced = (_NO_LETTER.sub(" ", text).casefold() for text in (part, critique))
    gold, words = (" ".join(_WORD.findall(text)) for text in spaced)
    if not gold:  # a symbol
        return bool(part) and part in critique
    end = " " if len(gold) < 4 else ""  # a longer one may have an ending
    return f" {gold}{end}" in f" {words} "
