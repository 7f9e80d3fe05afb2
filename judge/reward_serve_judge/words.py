"""English number words and their values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen"""
SMALL_WORDS = {word: value for value, word in enumerate(_SMALL.split())}
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS_WORDS = {word: 10 * value for value, word in enumerate(_TENS.split(), 2)} | {"fourty": 40}
SCALE_WORDS = {
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
NUMBER_WORDS = SMALL_WORDS.keys() | TENS_WORDS.keys() | SCALE_WORDS.keys()
_LONGEST_FIRST = sorted(NUMBER_WORDS, key=lambda word: (word[0], -len(word)))
_BY_LETTER = groupby(_LONGEST_FIRST, key=lambda word: word[0])  # other words are left at once
ANY_NUMBER_WORD = "|".join(
    f"{letter}(?:{'|'.join(word[1:] for word in words)})" for letter, words in _BY_LETTER
)
ANY_NUMBER_WORD = f"(?:{ANY_NUMBER_WORD})"
"""A pattern."""


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
