"""Cut a response that exceeds its token budget.

Its end is kept, where answers usually are, and its beginning too if the template sets
``head_tokens``, for answers that precede their reasons.
"""

from __future__ import annotations

from collections.abc import Callable

Encode = Callable[[str], tuple[list[int], list[int]]]
"""Tokenises a text: token ids, and the character offset at which each starts."""
JOINT = "\n...\n"
"""Replaces the text that was cut between beginning and end."""
_CHARACTERS = 32  # assumed maximum per token, so that the work is bounded for any response
_IN_WORD = frozenset("0123456789.,/%-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def by_characters(text: str) -> tuple[list[int], list[int]]:
    """Replaces a tokenizer: counts three characters as a token, a cautious average."""
    starts = list(range(0, len(text), 3))
    return starts, starts


def shortened(
    response: str, budget: int, head: int, shown: Callable[[str], str], encode: Encode
) -> tuple[str, list[int], int]:
    """The response within ``budget`` tokens: its text, its token ids, how many characters were cut.

    Args:
        response: any text.
        budget: maximum tokens; at least 1.
        head: maximum tokens of its beginning among them; 0 to keep only its end. Ignored if the
            budget is less than twice as large.
        shown: transforms the text before it is tokenised.
        encode: tokenises the transformed text.
    """
    skipped = max(0, len(response) - _CHARACTERS * budget)
    text = shown(response[skipped:])
    ids, starts = encode(text)
    if len(ids) <= budget and not (skipped and head):
        return text, ids, skipped
    before: list[int] = []
    beginning, after = "", 0
    if 0 < 2 * head <= budget:
        beginning, before, after = _beginning(shown(response[: _CHARACTERS * head]), head, encode)
    room = budget - len(before)
    start = starts[-room] if len(ids) > room else 0
    return beginning + text[start:], before + ids[-room:], max(skipped + start - after, 0)


def _beginning(text: str, most: int, encode: Encode) -> tuple[str, list[int], int]:
    """The first words with ``JOINT``, their tokens, and the words' number of characters."""
    joint, _ = encode(JOINT)
    ids, starts = encode(text)
    for end in range(min(most - len(joint), len(ids) - 1), 0, -1):
        at = starts[end]
        if not _IN_WORD.issuperset(text[at - 1 : at + 1]):
            return text[:at] + JOINT, ids[:end] + joint, at
    return "", [], 0
