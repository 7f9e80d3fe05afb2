"""Cut a response that exceeds its token budget.

Its end is kept, where answers usually are. If its last marked answer stands before that, the answer
is kept too; otherwise its beginning if the template sets ``head_tokens``, for answers that precede
their reasons.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

Encode = Callable[[str], tuple[list[int], list[int]]]
"""Tokenises a text: token ids, and the character offset at which each starts."""
JOINT = "\n...\n"
"""Replaces the text that was cut between beginning and end."""
CHARACTERS_A_TOKEN = 32
"""An upper bound, so that the work is bounded for any text; the average is far lower."""
_IN_WORD = frozenset("0123456789.,/%-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def by_characters(text: str) -> tuple[list[int], list[int]]:
    """Replaces a tokenizer: counts three characters as a token, a cautious average."""
    starts = list(range(0, len(text), 3))
    return starts, starts


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
    answer: tuple[int, int] | None = None,
) -> Shortened:
    """Cut the response to ``budget`` tokens.

    Args:
        response: any text.
        budget: maximum tokens; at least 1.
        head: maximum tokens of its beginning among them; 0 to keep only its end. Ignored if the
            budget is less than twice as large.
        shown: transforms the text before it is tokenised.
        encode: tokenises the transformed text.
        answer: start and end of the response's last marked answer, which is kept in any case.
    """
    skipped = max(0, len(response) - CHARACTERS_A_TOKEN * budget)
    text = shown(response[skipped:])
    ids, starts = encode(text)
    if len(ids) <= budget and not (skipped and (head or answer)):
        return Shortened(text, ids, skipped, 0)
    if answer is not None:
        start, end = answer
        after = len(encode(shown(response[max(start, skipped) :]))[0])
        if start < skipped or after > budget - head:
            size = len(encode(shown(response[start:end]) + JOINT)[0]) + 2
            head = max(head, min(size, budget // 2))
            kept = shortened(response[start:], budget, head, shown, encode)
            return kept._replace(cut_characters=kept.cut_characters + start)
    before: list[int] = []
    beginning, after = "", 0
    if 0 < 2 * head <= budget:
        beginning, before, after = _beginning(
            shown(response[: CHARACTERS_A_TOKEN * head]), head, encode
        )
    room = budget - len(before)
    start = starts[-room] if len(ids) > room else 0
    cut = max(skipped + start - after, 0)
    return Shortened(beginning + text[start:], before + ids[-room:], cut, after)


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
    before, first_exact = _written(first, size, lambda n: shown(response[:n]))
    after, last_exact = _written(last, size, lambda n: shown(response[size - n :]))
    return min(before, size - after), size - after, first_exact and last_exact


def _written(wanted: str, size: int, show: Callable[[int], str]) -> tuple[int, bool]:
    """How many of ``size`` characters ``show`` turns into ``wanted``, and whether that is exact."""
    if show(len(wanted)) == wanted:
        return len(wanted), True
    most = min(size, 4 * len(wanted) + CHARACTERS_A_TOKEN)
    least = bisect_left(range(most), len(wanted), key=lambda n: len(show(n)))
    near = range(least, min(least + 2 * CHARACTERS_A_TOKEN, most) + 1)
    found = next((n for n in near if show(n) == wanted), None)
    return (least, False) if found is None else (found, True)


def _beginning(text: str, most: int, encode: Encode) -> tuple[str, list[int], int]:
    """The first words with ``JOINT``, their tokens, and the words' number of characters."""
    joint, _ = encode(JOINT)
    ids, starts = encode(text)
    for end in range(min(most - len(joint), len(ids) - 1), 0, -1):
        at = starts[end]
        if not _IN_WORD.issuperset(text[at - 1 : at + 1]):
            return text[:at] + JOINT, ids[:end] + joint, at
    return "", [], 0
