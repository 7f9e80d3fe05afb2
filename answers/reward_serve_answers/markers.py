r"""Find the explicit final-answer markers of a response.

A marker is `#### 18`, `\boxed{18}`, `<answer>18</answer>`, `"answer": 18`, "the answer is 18",
"Answer: 18", "A: 18" at a line's start, or a line "**Final Answer**" above the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from reward_serve_answers.numbers import DOUBT, words

MAX_MARKERS = 100
MAX_ANSWER = 200
_MAX_SIGNS = 8_000

_MARKER = re.compile(
    r"""(?P<heading>^[ \t]*(?:\#{1,6}[ ]?[*_]{0,3}|[*_]{2,3}|(?=final))
        (?:(?:the|my|our)[ ])?(?:(?:final|correct)[ ]){0,2}answer[*_]{0,3}[ \t]*\n)
    | (?P<hash>(?<!\#)\#{4}(?!\#))
    | (?P<box>\\(?:boxed|fbox|framebox)(?![a-z]))
    | (?P<tag><answer>(?=(?P<tagged>(?:(?!answer|\#{4}|\\[a-z]{0,5}box)[^<]){1,200})</answer>))
    | (?P<key>(?P<quote>["'])(?:final[_ ]?)?answer(?P=quote)[ ]?:)
    | (?P<label>(?:\b(?:the|my|our)[ ])?(?:\b(?:final|correct)[ ]){0,2}(?<![a-z\d])answer
        (?:[ ]to[ ](?:the|this)[ ](?:question|problem))?[*_]{0,3}[ ]{0,3}(?::|=|is\b))
    | (?P<a>(?:^[ \t>*_]{0,9}|(?<=[.!?][ ]))(?-i:A)[*_]{0,3}:)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
# Every marker contains "answer", "####", "\box", "\fbox", "\framebox" or "A:" within its first
# _REACH characters after indentation. Searching for a letter of these first is 50 times as fast as
# trying _MARKER at every position.
_SIGN = re.compile(
    r"[wWxX#A](?:(?<=[nN][sS\u017f][wW])[eE][rR]|(?i:(?<=\\box)|(?<=\\fbox)|(?<=\\framebox))"
    r"|(?<=\#)(?<!\#\#)\#{3}(?!\#)|(?<=A)(?<![^\s>*_]A)[*_]{0,3}:)"
)
_REACH = 40
_FIRST = frozenset("#*_<\\\"'>tmofcaTMOFCA \t")  # what a marker starts with
_BLANKS = re.compile(r"[ \t]*")
_OPENING, _BRACE = re.compile(r"\s{0,3}\{"), re.compile(r"[{}]")
_DECORATION = re.compile(r"[\s:=*_`\"']*")
_CLAUSE_END = re.compile(r"(?<!\\)[.!?;](?!\d)|,(?=\s|$)|\n|(?=<[|/])")
OPENER_WORDS = words(
    """a about alright analysis analyze answer answering approach assistant begin break by
    calculate calculation calculations carefully certainly course determine down
    explain explanation figure final find first following follows for go help here i
    in is it let lets ll math me my need of ok okay our out problem process question
    reasoning response s solution solve solving start step steps sure the these think
    thinking this thought through to understand us we will with work respuesta
    solucion soluci\u00f3n l\u00f6sung \u89e3 \u89e3\u7b54 \u304b\u3044\u305b\u3064"""
)
"""The words of "master keys" (Zhao et al. 2025, "One Token to Fool LLM-as-a-Judge")."""
_REMARK_WORDS = (  # after "the answer is"; any other word may be the answer
    OPENER_WORDS
    | (DOUBT - {"either", "neither", "half", "twice"})
    | words(
        """correct right true given above below here matches match same as equal equals response
        reference student and very simple clear obvious easy hard known shown found stated without
        cannot instead untrue fake invalid unlikely depends uncertain unknown unclear"""
    )
)


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker and the text after it.

    Attributes:
        text: the text after the marker up to the end of its clause, or in its box.
        start: start of the marker in the response.
        end: end of the text in the response.
        kind: "heading", "hash", "box", "open_box" (without its closing brace), "tag", "key",
            "label" or "a".
    """

    text: str
    start: int
    end: int
    kind: str


def is_remark(text: str) -> bool:
    """Whether the text after a marker is a remark on the answer: "the answer is correct"."""
    found = [word for word in re.split(r"[\W_]+", text.lower()) if word]
    # A lone letter may be a choice: "the answer is a".
    return _REMARK_WORDS.issuperset(found) and any(len(word) > 1 for word in found)


def read_markers(response: str) -> Sequence[Marker] | None:
    """Find every marker that is followed by text, in order.

    Args:
        response: The policy's response.

    Returns:
        The markers, or None if there are more than `MAX_MARKERS`.
    """
    found = list(islice(_marked(response), MAX_MARKERS + 1))
    if len(found) > MAX_MARKERS:
        return None
    markers: list[Marker] = []
    end = 0
    for match, following in zip_longest(found, found[1:]):
        if match.start() < end:
            continue  # a box in a box
        stop = following.start() if following else len(response)
        kind = match.lastgroup or ""
        inner = braced(response, match.end()) if kind == "box" else None
        if inner is not None:
            text, end = inner
        elif kind == "tag":
            text, end = match["tagged"].strip(), match.end("tagged")
        else:
            text, end = _clause(response, match.end(), stop)
            kind = "open_box" if kind == "box" else kind
        if any(map(str.isalnum, text)):
            markers.append(Marker(text, match.start(), end, kind))
    return tuple(markers)


def first_marker(response: str) -> int | None:
    """The position after the first marker, whatever follows it; None without a marker."""
    match = next(_marked(response), None)
    return None if match is None else match.end()


def _marked(response: str) -> Iterator[re.Match[str]]:
    """Equivalent to ``_MARKER.finditer``, for texts with at most ``_MAX_SIGNS`` signs."""
    end = tried = 0
    for sign in islice(_SIGN.finditer(response), _MAX_SIGNS):
        if sign.start() < end:
            continue
        first = max(end, tried, sign.start() - _REACH)
        while first > max(end, tried) and response[first - 1] in " \t":
            first -= 1
        tried = sign.start() + 1
        indented = _BLANKS.match(response, min(len(response), sign.end() + 2 * MAX_ANSWER))
        stop = indented.end() + 1 if indented else len(response)
        for at in range(first, tried):
            if response[at] in " \t" and at and response[at - 1] != "\n":
                continue  # a blank begins a marker only with its line
            if response[at] in _FIRST and (match := _MARKER.match(response, at, stop)):
                yield match
                end = match.end()
                break


def braced(text: str, start: int) -> tuple[str, int] | None:
    """Parse the group in braces at `start`.

    Args:
        text: A text with LaTeX.
        start: Position of the group, which may follow up to three spaces.

    Returns:
        The text between the braces and the position after them, or None if no group begins there
        or it does not end within `MAX_ANSWER` characters.
    """
    opening = _OPENING.match(text, start)
    if opening is None:
        return None
    depth = 1
    for brace in _BRACE.finditer(text, opening.end(), opening.end() + MAX_ANSWER):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[opening.end() : brace.start()], brace.end()
    return None


def _clause(response: str, start: int, stop: int) -> tuple[str, int]:
    stop = min(stop, start + MAX_ANSWER)
    lead = _DECORATION.match(response, start, stop)
    begin = lead.end() if lead else start
    for cut in _CLAUSE_END.finditer(response, begin, stop):
        text = response[begin : cut.start()]
        if cut[0] != "," or not _is_open(text):
            return text, cut.start()
    return response[begin:stop], stop


def _is_open(text: str) -> bool:
    return sum(map(text.count, "([{")) > sum(map(text.count, ")]}"))
