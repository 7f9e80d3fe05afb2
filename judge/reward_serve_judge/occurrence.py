"""Finds the reference's text in a response, so that a small judge does not have to.

It is only a hint: the reference may occur without being the answer, and the answer may be written
differently.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

Occurrence = Literal["marked", "present", "absent"]
OCCURRENCES: tuple[Occurrence, ...] = get_args(Occurrence)

_SPACES = re.compile(r"\s*([+*/^=<>,|-])\s*|(?<=[(\[{])\s+|\s+(?=[)\]}])")
_MAX_REFERENCE = 200  # characters
_LIST = re.compile(r"([(\[{])(.+,.+)([)\]}])")
_LETTER = re.compile(r"[^\W\d_]")
_CASELESS = re.compile(r"[^\W\d_]{3}|^(?:no|ja|si)$")


def occurrence(reference: str, response: str, clause: str | None) -> Occurrence:
    """Whether the reference occurs in the marked answer, elsewhere in the response, or nowhere.

    Args:
        reference: the reference as shown to the judge.
        response: the response as shown to the judge.
        clause: the text after the response's last marker, as it would be shown; None without one.
    """
    wanted = _compact(reference)
    if not wanted or len(wanted) > _MAX_REFERENCE:
        return "absent"
    marked, shown = _compact(clause or ""), _compact(response)
    listed = _LIST.fullmatch(wanted)
    least = (listed[2] if listed else wanted).casefold()
    if not any(least in text.casefold() for text in (marked, shown)):
        return "absent"  # the usual case; spares compiling a pattern
    pattern = _pattern(wanted, listed)
    if pattern.search(marked):
        return "marked"
    return "present" if pattern.search(shown) else "absent"


def _compact(text: str) -> str:
    return _SPACES.sub(lambda found: found[1] or "", " ".join(text.split()))


def _pattern(wanted: str, listed: re.Match[str] | None) -> re.Pattern[str]:
    """The reference as a whole: not a part of a word, a number, a formula or a list."""
    texts = [_whole(wanted)]
    if listed and not listed[2].startswith(("(", "[", "{")):  # a list without its brackets
        another = r",-?\d" if listed[2][-1].isdigit() else r",\w"
        texts.append(rf"(?<![\w.,(\[{{-]){re.escape(listed[2])}(?![\w)\]}}]|\.\d|{another})")
    flags = re.IGNORECASE if _CASELESS.search(wanted) else re.NOFLAG
    if wanted.isascii():
        flags |= re.ASCII  # a letter of Chinese may stand beside a number
    return re.compile("|".join(texts), flags)


def _whole(wanted: str) -> str:
    before = after = ""
    if wanted[0].isalnum():
        before = r"(?<![\w^])(?<!\w[*/])(?<!\d\.)(?<![a-z]\()(?<!-inf,)"
        before += r"(?<![\w)][+-])" if _LETTER.search(wanted) else r"(?<![^\w)]-)(?<!^-)"
    if wanted[-1].isalnum() or wanted[-1] == ")":
        after = r"(?![\w^(%]|[*/]\w|\.\d|:\d|,inf\b|[+-](?:[\d(]|[a-zA-Z]\b))"
    return f"{before}{re.escape(wanted)}{after}"
