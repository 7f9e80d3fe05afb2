"""Whether a text mentions a number in any form: a reader of its own, not a verifier's.

It errs on the side of yes: 18 is mentioned by 180, by 1.8 and by "eighteen".
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from reward_serve.numbers.words import SMALL_WORDS, TENS_WORDS

_NUMERAL = re.compile(r"\d+(?:[.,'_ ]?\d+)*")
_MAX_NUMERAL = 40
_WORDS = SMALL_WORDS | TENS_WORDS | {"dozen": 12, "both": 2}
_ONES = [word for word, value in SMALL_WORDS.items() if 0 < value < 10]
_SPELLED = re.compile(rf"\b({'|'.join(TENS_WORDS)})[ -]?({'|'.join(_ONES)})\b")


def mentions(text: str, value: Decimal) -> bool:
    """Tell whether ``text`` holds ``value``, in digits of any script or in English words."""
    return _key(str(value)) in mentioned(text)


def mentioned(text: str) -> frozenset[str]:
    """The numbers in a text: their digits, without leading and trailing zeros."""
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
