"""Rewrites a text step by step, and skips the steps whose signs it does not contain.

There are some sixty patterns, and most texts contain the signs of only a few. `re` searches fastest
for a pattern that begins with a character or a set of characters rather than with a lookbehind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

Replacement = str | Callable[[re.Match[str]], str]


class Steps(NamedTuple):
    """Substitutions for the texts with one of these signs, or in which this pattern is found."""

    needed: tuple[str, ...] | re.Pattern[str]
    substitutions: tuple[tuple[re.Pattern[str], Replacement], ...]


def steps(
    needed: Iterable[str] | re.Pattern[str],
    *substitutions: tuple[str, Replacement],
    flags: int = re.NOFLAG,
) -> Steps:
    """Compile substitutions.

    Args:
        needed: characters or lower-case words, or a pattern that is fast to search for; no
            substitution matches a text without any. Empty for substitutions in every text.
        substitutions: patterns and their replacements, in order.
        flags: of the patterns.
    """
    compiled = ((re.compile(pattern, flags), new) for pattern, new in substitutions)
    signs = needed if isinstance(needed, re.Pattern) else tuple(needed) or ("",)
    return Steps(signs, tuple(compiled))


def applied(groups: Sequence[Steps], text: str) -> str:
    """The text after all steps, in order."""
    lower = text.lower()
    for needed, substitutions in groups:
        if _has(needed, text, lower):
            for pattern, replacement in substitutions:
                text = pattern.sub(replacement, text)
            lower = text.lower()
    return text


def _has(needed: tuple[str, ...] | re.Pattern[str], text: str, lower: str) -> bool:
    if isinstance(needed, re.Pattern):
        return needed.search(text) is not None
    return any(map(lower.__contains__, needed))
