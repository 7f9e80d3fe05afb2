"""Untrusted texts as prompts show them: without tags that close a fence, and cut to fit."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from reward_serve.templates import FIELDS

Encode = Callable[[str], tuple[list[int], Sequence[int]]]
"""Tokenises a text: token ids, and the character offset at which each starts."""
JOINT = "\n...\n"
"""Replaces the text that was cut between beginning and end."""
CHARACTERS_A_TOKEN = 32
"""An upper bound, so that the work is bounded for any text; the average is far lower."""
END_TOKENS = 32
"""Shown of a response's end if its answer comes far before it; more text would distract."""
OFTEN_CHARACTERS = 8
"""Of a token; few texts exceed it."""
_EDGE = 8  # tokens where a part begins or ends, which may differ from the whole text's
_IN_WORD = frozenset("0123456789.,/%-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

_FENCES = (*FIELDS, "turn", "call")
_FENCE = re.compile(r"<(?=\s*/?\s*(?:" + "|".join(_FENCES) + r")(?:_\d)?\b)", re.IGNORECASE)


def by_characters(text: str) -> tuple[list[int], list[int]]:
    """Replaces a tokenizer: counts three characters as a token, a cautious average."""
    starts = list(range(0, len(text), 3))
    return starts, starts


class Read(NamedTuple):
    """A text as it is shown, its tokens, and the character at which each starts."""

    text: str
    ids: list[int]
    starts: Sequence[int]


class Shortened(NamedTuple):
    """A response, cut to its budget.

    Attributes:
        text: the remaining text, with ``JOINT`` if the middle was cut.
        ids: its tokens.
        cut_characters: number of characters that were cut.
        head: number of characters before ``JOINT``; 0 without it.
    """

    text: str
    ids: list[int]
    cut_characters: int
    head: int


def shortened(
    response: str,
    budget: int,
    head: int,
    shown: Callable[[str], str],
    encode: Encode,
    answer: Callable[[], tuple[int, int] | None] = lambda: None,
) -> Shortened:
    """Cut the response to ``budget`` tokens.

    Args:
        response: any text.
        budget: maximum tokens; at least 1.
        head: maximum tokens of its beginning among them; 0 to keep only its end. Ignored if the
            budget is less than twice as large.
        shown: transforms the text before it is tokenised.
        encode: tokenises the transformed text.
        answer: finds start and end of the response's answer, which is kept in any case; of a long
            text after it only ``END_TOKENS`` tokens. Only called if the response is cut.
    """

    @cache  # the text from the answer on is needed again
    def read(text: str) -> Read:
        text = shown(text)
        return Read(text, *encode(text))

    head = head if 2 * head <= budget else 0
    skipped, end = enough(response, budget, read, at_end=True)
    fits = len(end.ids) <= budget
    if fits and not skipped:
        return Shortened(end.text, end.ids, 0, 0)
    begin = 0
    if found := answer():
        start, stop = found
        # If the end would not show the answer, show it as the beginning, with a short end.
        if start < skipped or len(read(response[start:]).ids) > budget - head:
            size = len(read(response[start:stop]).ids) + len(read(JOINT).ids) + 2
            head = max(head, min(size, budget // 2))
            budget = min(budget, head + END_TOKENS)
            begin, response = start, response[start:]
            skipped, end = enough(response, budget, read, at_end=True)
            fits = len(end.ids) <= budget
    if fits and not (skipped and (head or found)):
        return Shortened(end.text, end.ids, begin + skipped, 0)
    before: list[int] = []
    beginning, after = "", 0
    if 0 < head < budget:
        first = enough(response, head, read, at_end=False)[1] if skipped else end
        beginning, before, after = _beginning(first, head, read(JOINT).ids)
    room = budget - len(before)
    start = end.starts[-room] if len(end.ids) > room else 0
    cut = begin + max(skipped + start - after, 0)
    return Shortened(beginning + end.text[start:], before + end.ids[-room:], cut, after)


def enough(
    response: str, tokens: int, read: Callable[[str], Read], at_end: bool
) -> tuple[int, Read]:
    """The end or the beginning of a response, and the number of characters left out.

    It has at least ``tokens`` tokens, if the response does within ``CHARACTERS_A_TOKEN`` characters
    each. Few texts exceed eight characters per token; only those are read further.
    """
    for characters in (OFTEN_CHARACTERS * tokens, CHARACTERS_A_TOKEN * tokens):
        left_out = max(0, len(response) - characters)
        part = read(response[left_out:] if at_end else response[:characters])
        if not left_out or len(part.ids) > tokens + _EDGE:
            break
    return left_out, part


def cut_span(
    response: str, text: str, head: int, shown: Callable[[str], str]
) -> tuple[int, int, bool]:
    """Start and end of the text that ``shortened`` cut from the response, and whether exact.

    If ``shown`` rewrites the response and no position matches the rewritten text, they are
    estimated from its length.

    Args:
        response: the whole response.
        text: the remaining text.
        head: ``Shortened.head``.
        shown: as for ``shortened``.
    """
    size = len(response)
    first, last = text[:head], text[head + len(JOINT) :] if head else text
    before = _written(first, size, lambda n: shown(response[:n]))
    after = _written(last, size, lambda n: shown(response[size - n :]))
    exact = (shown(response[:before]), shown(response[size - after :])) == (first, last)
    return min(before, size - after), size - after, exact


def _written(wanted: str, size: int, show: Callable[[int], str]) -> int:
    """The number of characters that ``show`` turns into ``wanted``, or into as many characters."""
    if show(len(wanted)) == wanted:
        return len(wanted)
    most = min(size, 4 * len(wanted) + CHARACTERS_A_TOKEN)
    least = bisect_left(range(most), len(wanted), key=lambda n: len(show(n)))
    near = range(least, min(least + 2 * CHARACTERS_A_TOKEN, most) + 1)
    return next((n for n in near if show(n) == wanted), least)


def _beginning(first: Read, most: int, joint: list[int]) -> tuple[str, list[int], int]:
    """The first words with ``JOINT``, their tokens, and the words' number of characters."""
    text, ids, starts = first
    for end in range(min(most - len(joint), len(ids) - 1), 0, -1):
        at = starts[end]
        if not _IN_WORD.issuperset(text[at - 1 : at + 1]):
            return text[:at] + JOINT, ids[:end] + joint, at
    return "", [], 0


def defuse(text: str) -> str:
    """The text with the "<" of every fence tag replaced, so that no field can close its fence."""
    return _FENCE.sub("‹", text)
