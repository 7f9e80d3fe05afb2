"""Remove what a reader of the rendered page does not see, or sees struck out."""

from __future__ import annotations

import re

from reward_serve.rules.markers import first_marker

MAX_ARGUMENT = 200
MAX_UNSEEN = 2_000
# A percent sign is common, so a LaTeX comment begins a line or follows a formula or a sentence.
_LATEX_COMMENT = re.compile(
    r"(?:^[ \t]*|(?<=[}$\]).,;:!])[ \t]+)%"
    r"(?![ \t]*(?:\(|(?:of|off|and|or|is|for|in|to|by|per|more|less|increase|decrease|discount"
    r"|change)\b))[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
_PHANTOM = re.compile(
    r"\\[hv]?phantom(?=\s?\{)"
    r"|\\textcolor\s?(?:\[\w{1,9}\])?\{\s?(?:white|transparent|\#?f{3}(?:f{3})?)\s?\}(?=\s?\{)"
    r"|\\color\s?\{\s?(?:white|transparent)\s?\}(?=\s?\{)"
    r"|(?=\{\s?\\color\s?\{\s?(?:white|transparent)\s?\})",
    re.IGNORECASE,
)
_BRACE = re.compile(r"[{}]")
_WHITE = re.compile(r"\\color\s?\{\s?(?:white|transparent)\s?\}[^\n]*", re.IGNORECASE)
_UNSEEN = (
    r"color\s?[:=]\s?[\"']?(?:white|transparent|\#fff(?:fff)?)\b|display\s?:\s?none"
    r"|visibility\s?:\s?hidden|font-size\s?:\s?0(?![.\d])|opacity\s?:\s?0(?![.\d])|\shidden\b"
)
_UNSEEN_TAG = re.compile(
    rf"<([a-z]{{1,9}})\b(?=[^<>]{{0,200}}(?:{_UNSEEN}))[^<>]{{1,300}}>", re.IGNORECASE
)
_REVERSED = re.compile(r"\u202e[^\u202c\n]{0,200}\u202c?")  # shown from right to left
_INVISIBLE = re.compile(r"[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_DELETED = re.compile(r"~~[^~\n]{1,80}~~|<(del|s|strike)>[^<]{1,80}</\1>")
_INSERTED = re.compile(r"</?ins>")


def without_hidden(text: str) -> str:
    """The text without what a reader of the rendered page would not see."""
    if not text.isascii():
        text = _INVISIBLE.sub("", _REVERSED.sub("", text))
    if "<" in text:
        text = _without_unseen_tags(_without_comments(text))
    if "\\" in text:
        text = _WHITE.sub("", _without_arguments(text))
    return _LATEX_COMMENT.sub(_without_answer, text) if "%" in text else text


def without_deletions(text: str) -> str:
    """The text without deletions: ``~~17~~ 18``, ``<del>17</del> <ins>18</ins>``."""
    deleted = ("~~" in text or "<" in text) and _DELETED.search(text)
    return _INSERTED.sub("", _DELETED.sub(" ", text)) if deleted else text


def _without_answer(comment: re.Match[str]) -> str:
    return "" if first_marker(comment[0]) is not None else comment[0]


def _without_comments(text: str) -> str:
    """The text without HTML comments; one that does not end is no comment."""
    kept, end = [], 0
    while (start := text.find("<!--", end)) >= 0 and (stop := text.find("-->", start)) >= 0:
        kept.append(text[end:start])
        end = stop + len("-->")
    return "".join([*kept, text[end:]])


def _without_unseen_tags(text: str) -> str:
    kept, end = [], 0
    for tag in _UNSEEN_TAG.finditer(text):
        closing = f"</{tag[1].lower()}>"
        stop = text[tag.end() : tag.end() + MAX_UNSEEN].lower().find(closing)
        if tag.start() >= end and stop >= 0:
            kept.append(text[end : tag.start()])
            end = tag.end() + stop + len(closing)
    return "".join([*kept, text[end:]])


def _closed_braces(text: str) -> dict[int, int]:
    """Where each closed group begins and ends."""
    closed, opened = {}, []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            closed[opened.pop()] = brace.start()
    return closed


def _without_arguments(text: str) -> str:
    r"""The text without ``\phantom{...}`` and white text, whose braces may be nested."""
    kept, end = [], 0
    commands = list(_PHANTOM.finditer(text))
    closed = _closed_braces(text) if commands else {}
    for command in commands:
        stop = closed.get(text.find("{", command.end()), -1)
        if command.start() >= end and 0 <= stop - command.end() <= MAX_ARGUMENT:
            kept.append(text[end : command.start()])
            end = stop + 1
    return "".join([*kept, text[end:]])
