r"""Split untrusted text into pieces that a page can show safely.

Pieces reach the browser as text nodes, so that markup stays text. Characters that are invisible or
reorder the line are replaced by visible names.

    >>> [piece.text for piece in pieces("18\u202e")]
    ['18', 'U+202E']
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

MAX_SHOWN = 24_000
"""Maximum characters shown of a text; a longer one shows its start, end and marked parts."""

_HEAD = 6_000
_AROUND = 600
_MAX_NAMED = 400
_MAX_COMBINING = 4

# Blank letters and marks, which Unicode's categories do not separate from visible ones.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Mark(NamedTuple):
    """A span of characters with a style.

    Attributes:
        start: the first character.
        end: the end of the span, exclusive.
        kind: a CSS class: ``match``, ``cut`` or ``field-part``.
    """

    start: int
    end: int
    kind: str


class Piece(NamedTuple):
    """Characters in one style.

    Attributes:
        text: the text shown.
        kind: CSS classes; ``unseen`` for the name of a hidden character.
        title: the tooltip.
    """

    text: str
    kind: str = ""
    title: str = ""


def is_hidden(character: str) -> bool:
    """Whether a character is invisible or moves others; newlines and tabs are not hidden."""
    if " " <= character <= "~" or character in "\n\t":
        return False
    return (
        character in _BLANK
        or 0xE0100 <= ord(character) <= 0xE01EF
        or unicodedata.category(character) in _HIDDEN_CATEGORIES
        or (unicodedata.category(character) == "Zs" and character != "\u3000")
    )


def pieces(text: str, marks: Iterable[Mark] = (), most: int = MAX_SHOWN) -> list[Piece]:
    """Split a text into pieces: at most ``most`` characters, and those around the marks."""
    marks = sorted(mark for mark in marks if mark.start < mark.end)
    parts: list[Piece] = []
    budget = [_MAX_NAMED]
    last = 0
    for start, end in _windows(len(text), marks, most):
        if start > last:
            parts.append(_left_out(start - last))
        for begin, until, kind in _styled(start, end, marks):
            parts += _revealed(text[begin:until], kind, budget)
        last = end
    if last < len(text):
        parts.append(_left_out(len(text) - last))
    return parts


def one_line(text: str, most: int = 160) -> list[Piece]:
    """The end of a text on one line, for tables."""
    short = text[-most:]
    parts = pieces(short.replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", " "))
    return [Piece("… ", "muted"), *parts] if len(text) > most else parts


def legible(text: str, most: int = 200) -> str:
    """A short text with its hidden characters named, for places that cannot show pieces."""
    return "".join(piece.text for piece in pieces(text[:most]))


def hidden_names(text: str, most: int = 5) -> list[str]:
    """Code and name of the first few distinct hidden characters of a text."""
    distinct = dict.fromkeys(filter(is_hidden, text[:MAX_SHOWN]))
    return [f"{_code(character)} {_name(character)}" for character in list(distinct)[:most]]


def transportable(text: str) -> str:
    """The text with lone surrogates replaced, because they cannot be sent to a browser."""
    return text.encode("utf-8", "replace").decode()


def _windows(length: int, marks: Sequence[Mark], most: int) -> list[tuple[int, int]]:
    if length <= most:
        return [(0, length)]
    head = min(_HEAD, most // 2)
    wanted = [(0, head), (length - (most - head), length)]
    for mark in marks[:20]:
        wanted.append((max(0, mark.start - _AROUND), min(length, mark.start + _AROUND)))
        wanted.append((max(0, mark.end - _AROUND), min(length, mark.end + _AROUND)))
    joined: list[tuple[int, int]] = []
    for start, end in sorted(wanted):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _styled(start: int, end: int, marks: Sequence[Mark]) -> Iterator[tuple[int, int, str]]:
    """Split a window into runs of one style; overlapping marks combine their kinds."""
    edges = {start, end}
    for mark in marks:
        edges.update(edge for edge in (mark.start, mark.end) if start < edge < end)
    ordered = sorted(edges)
    for begin, until in pairwise(ordered):
        kinds = {mark.kind for mark in marks if mark.start <= begin < mark.end}
        yield begin, until, " ".join(sorted(kinds))


def _revealed(text: str, kind: str, budget: list[int]) -> Iterator[Piece]:
    for hidden, run in groupby(text.replace("\r\n", "\n"), key=is_hidden):
        if not hidden:
            yield Piece(_with_few_marks("".join(run)), kind)
            continue
        for character, equal in groupby(run):
            count = len(list(equal))
            style = f"unseen {kind}".strip()
            if budget[0] <= 0:
                yield Piece("•" * min(count, 3), style, "hidden characters, too many to name")
                continue
            budget[0] -= 1
            times = f"×{count}" if count > 1 else ""
            yield Piece(_code(character) + times, style, _name(character))


def _with_few_marks(text: str) -> str:
    """Limit the combining marks on each letter: a pile of them covers the lines around it."""
    if text.isascii():
        return text
    kept, pile = [], 0
    for character in text:
        pile = pile + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if pile <= _MAX_COMBINING:
            kept.append(character)
        elif pile == _MAX_COMBINING + 1:
            kept.append("…")
    return "".join(kept)


def _left_out(count: int) -> Piece:
    return Piece(f"\n… {count:,} characters not shown …\n", "left-out")


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _name(character: str) -> str:
    return unicodedata.name(character, "control character" if character < "\xa0" else "unassigned")
