"""What a judge is shown of a response that is longer than its budget.

Its end, where answers stand, and where a template says so its beginning too, for answers that come
before their reasons.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

Encode = Callable[[str], tuple[list[int], list[int]]]
"""Token ids of a text, and where each starts in it."""
JOINT = "\n...\n"
"""Stands for what was cut between beginning and end."""
_CHARACTERS = 32  # of a token at most, so that a response of any length is bounded work
_IN_WORD = frozenset("0123456789.,/%-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def by_characters(text: str) -> tuple[list[int], list[int]]:
    """In place of a tokenizer where there is none: three characters a token, a cautious average."""
    starts = list(range(0, len(text), 3))
    return starts, starts


class Shortened(NamedTuple):
    """What is shown of a response.

    Attributes:
        text: with ``JOINT`` where the middle was cut.
        ids: its tokens.
        cut_characters: how many characters are left out.
        head: characters before ``JOINT``; 0 where there is none.
    """

    text: str
    ids: list[int]
    cut_characters: int
    head: int


def shortened(
    response: str, budget: int, head: int, shown: Callable[[str], str], encode: Encode
) -> Shortened:
    """The response within ``budget`` tokens.

    Args:
        response: any text.
        budget: most tokens; at least 1.
        head: most tokens of its beginning among them; 0 for its end alone. A budget of less than
            twice as many shows the end alone.
        shown: the text as the judge is to see it.
        encode: tokenises what is shown.
    """
    skipped = max(0, len(response) - _CHARACTERS * budget)
    text = shown(response[skipped:])
    ids, starts = encode(text)
    if len(ids) <= budget and not (skipped and head):
        return Shortened(text, ids, skipped, 0)
    before: list[int] = []
    beginning, after = "", 0
    if 0 < 2 * head <= budget:
        beginning, before, after = _beginning(shown(response[: _CHARACTERS * head]), head, encode)
    room = budget - len(before)
    start = starts[-room] if len(ids) > room else 0
    cut = max(skipped + start - after, 0)
    return Shortened(beginning + text[start:], before + ids[-room:], cut, after)


def cut_span(
    response: str, text: str, head: int, shown: Callable[[str], str]
) -> tuple[int, int, bool]:
    """Start and end of what ``shortened`` left out, in the response, and whether they are exact.

    Where the response is shown rewritten and no place of it reads as what is shown, they are those
    with a text of that length, which may be some characters off.

    Args:
        response: all of it.
        text: what is shown of it.
        head: as ``shortened`` gives it.
        shown: as for ``shortened``.
    """
    size = len(response)
    first, last = text[:head], text[head + len(JOINT) :] if head else text
    before, first_exact = _written(first, size, lambda n: shown(response[:n]))
    after, last_exact = _written(last, size, lambda n: shown(response[size - n :]))
    return min(before, size - after), size - after, first_exact and last_exact


def _written(wanted: str, size: int, show: Callable[[int], str]) -> tuple[int, bool]:
    """How many of ``size`` characters are shown as ``wanted``, and whether that is exact."""
    if show(len(wanted)) == wanted:
        return len(wanted), True
    most = min(size, 4 * len(wanted) + _CHARACTERS)
    least = bisect_left(range(most), len(wanted), key=lambda n: len(show(n)))
    near = range(least, min(least + 2 * _CHARACTERS, most) + 1)
    found = next((n for n in near if show(n) == wanted), None)
    return (least, False) if found is None else (found, True)


def _beginning(text: str, most: int, encode: Encode) -> tuple[str, list[int], int]:
    """The first words and the joint, their tokens, and how many characters the words are."""
    joint, _ = encode(JOINT)
    ids, starts = encode(text)
    for end in range(min(most - len(joint), len(ids) - 1), 0, -1):
        at = starts[end]
        if not _IN_WORD.issuperset(text[at - 1 : at + 1]):
            return text[:at] + JOINT, ids[:end] + joint, at
    return "", [], 0
