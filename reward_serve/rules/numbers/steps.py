"""Rewrites a text step by step, and skips the steps whose signs it does not contain.

There are some sixty patterns, and most texts contain the signs of only a few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

Replacement = str | Callable[[re.Match[str]], str]


class Steps(NamedTuple):
    """Substitutions for texts with one of these signs, or for every text if there are none."""

    signs: tuple[str, ...]
    substitutions: tuple[tuple[re.Pattern[str], Replacement], ...]


def steps(
    signs: Iterable[str], *substitutions: tuple[str, Replacement], flags: int = re.NOFLAG
) -> Steps:
    """Compile substitutions.

    Args:
        signs: characters or lower-case words; no pattern matches a text without any of them.
        substitutions: patterns and their replacements, in order.
        flags: of the patterns.
    """
    compiled = ((re.compile(pattern, flags), new) for pattern, new in substitutions)
    return Steps(tuple(signs), tuple(compiled))


def applied(groups: Sequence[Steps], text: str) -> str:
    """The text after all steps, in order."""
    lower = text.lower()
    for signs, substitutions in groups:
        if not signs or any(sign in lower for sign in signs):
            for pattern, replacement in substitutions:
                text = pattern.sub(replacement, text)
            lower = text.lower()
    return text
