"""Whether a text mentions a number in any form; independent of the verifiers' number parsing.

It prefers false positives: 180, 1.8 and "eighteen" all mention 18.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from reward_serve_judge.canonical import SMALL_WORDS, TENS_WORDS

_NUMERAL = re.compile(r"\d+(?:[.,'_ ]?\d+)*")
_MAX_NUMERAL = 40
_WORDS = SMALL_WORDS | TENS_WORDS | {"dozen": 12, "both": 2}
_ONES = [word for word, value in SMALL_WORDS.items() if 0 < value < 10]
_SPELLED = re.compile(rf"\b({'|'.join(TENS_WORDS)})[ -]?({'|'.join(_ONES)})\b")


def mentions(text: str, value: Decimal) -> bool:
    """Whether ``text`` contains ``value``, in digits of any script or in English words."""
    return _key(str(value)) in mentioned(text)


def mentioned(text: str) -> frozenset[str]:
    """The digits of each number in a text, without leading and trailing zeros."""
    plain = _plain(text).lower()
    keys = {_key(run) for run in re.findall(r"\d+", plain)}
    keys.update(_key(n[0]) for n in _NUMERAL.finditer(plain) if len(n[0]) <= _MAX_NUMERAL)
    words = set(re.findall(r"[a-z]+", plain))
    keys.update(_key(str(_WORDS[word])) for word in words & _WORDS.keys())
    keys.update(_key(str(_WORDS[tens] + _WORDS[ones])) for tens, ones in _SPELLED.findall(plain))
    return frozenset(keys)


def _key(number: str) -> str:
    return "".join(filter(str.isdigit, number)).strip("0")


def _plain(text: str) -> str:
    if text.isascii():
        return text
    return "".join(
        str(unicodedata.decimal(character)) if character.isdecimal() else character
        for character in unicodedata.normalize("NFKC", text)
        if unicodedata.category(character) not in {"Cf", "Mn", "Me"}
    )
