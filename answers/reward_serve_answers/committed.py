r"""Decide what a response committed to, once, for rules and judge alike.

    committed("<think>17?</think>So \\boxed{18}. As 9 * 2 = 18.\n\nQuestion: What is 5 + 2?\nA: 7")
    # text "So \\boxed{18}. As 9 * 2 = 18.", clause "18", span (3, 13)

Thinking, what follows the answer to the question, and what a reader of the rendered page would not
see are no part of it. The text may still take back its last marker's answer. A marker is `#### 18`,
`\boxed{18}`, `<answer>18</answer>`, `"answer": 18`, "the answer is 18", "Answer: 18", "A: 18" at a
line's start, or a line "**Final Answer**" above the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, zip_longest

from reward_serve_answers.thinking import places, read_thinking
from reward_serve_answers.values import BRACE, DOUBT, MAX_ANSWER, braced, words

MAX_MARKERS = 100
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
    words = [word for word in re.split(r"[\W_]+", text.lower()) if word]
    # A lone letter may be a choice: "the answer is a".
    return _REMARK_WORDS.issuperset(words) and any(len(word) > 1 for word in words)


def read_markers(response: str) -> Sequence[Marker] | None:
    """Every marker that is followed by text, in order; None if there are over `MAX_MARKERS`."""
    matches = list(islice(_marked(response), MAX_MARKERS + 1))
    if len(matches) > MAX_MARKERS:
        return None
    markers: list[Marker] = []
    end = 0
    for match, following in zip_longest(matches, matches[1:]):
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


MAX_RESPONSE = 200_000
"""Characters; of a longer response, only the end is read."""
MAX_TURNS = 1_000
MAX_QUESTION = 300
MAX_SHORT_ANSWER = 4  # words

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
_WHITE = re.compile(r"\\color\s?\{\s?(?:white|transparent)\s?\}[^\n]*", re.IGNORECASE)
_UNSEEN = (
    r"color\s?[:=]\s?[\"']?(?:white|transparent|\#fff(?:fff)?)\b|display\s?:\s?none"
    r"|visibility\s?:\s?hidden|font-size\s?:\s?0(?![.\d])|opacity\s?:\s?0(?![.\d])|\shidden\b"
)
_UNSEEN_TAG = re.compile(
    rf"<([a-z]{{1,9}})\b(?=[^<>]{{0,200}}(?:{_UNSEEN}))[^<>]{{1,300}}>", re.IGNORECASE
)
_REVERSED = re.compile(r"\u202e[^\u202c\n]{0,200}\u202c?")  # shown from right to left
INVISIBLE = re.compile(r"[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_QUESTION = (
    r"[ \t#*>]{0,9}(?:(?:next|new|another) )?"
    r"(?:Q|Question|Exercise|Human|User|Instruction)\b[ *\d]{0,9}:"
    # "Problem: I forgot the tax" is no question.
    r"|[ \t#*>]{0,9}(?:next|new|another) Problem\b[ *\d]{0,9}:"
    r"|[ \t#*>]{0,9}Problem\b[ *]{0,9}(?:\d[ *\d]{0,8}:|:(?=[^?]{0,400}\?))"
    r"|[ \t#*>]{0,9}(?:Question|Problem|Exercise|Example) \d{1,3}\b[ *.:)]{0,4}$"
    r"|Now (?:try|solve|answer) (?:this|another|the next)\b[^\n:]{0,40}:"
    r"|\#{1,6}[ ]{0,3}(?:Instruction|Input|Question|Problem|Human|User)s?\b[ \d]{0,9}$"
    r"|Input:(?=[^\n]{1,2000}\n{1,2}Output:)"
)
_TURN = re.compile(
    rf"\n(?:{_QUESTION})"
    r"|<\|(?:im_start\|>|start\|>|start_header_id\|>)?\s{0,9}(?:user|human)\b"
    r"|<start_of_turn>\s{0,9}user|\[INST\]",
    re.IGNORECASE | re.MULTILINE,
)
# Every turn contains one of these; searching for them first is faster.
_SIGNS_OF_TURNS = (
    *("question", "problem", "exercise", "human", "user", "instruction", "example", "input:"),
    *("now try", "now solve", "now answer", "[inst]"),
)
_TURN_START = re.compile(r"[\n<\[]")
_SHORT_SIGN = re.compile(r"q[ *\d]{0,9}:")
_BEFORE_SIGN = 40  # characters
_ASKED = re.compile(  # a question under a label that may also be a heading
    r"^[ \t#*>\[<(]{0,9}(?:(?:next|another|similar|bonus|follow-up) )?(?:Q ?\d|Question|Problem"
    r"|Task|Puzzle|Exercise|Example|Query|Prompt|Follow-up|User|Pregunta|Frage|\u95ee\u9898"
    r"|(?:here(?: is|'s)|let's (?:try|do|solve)) (?:a |the )?(?:next|new|another|similar))"
    r"(?![^\W\d_])",
    re.IGNORECASE | re.MULTILINE,
)
_END_OF_TEXT = re.compile(r"<\|(?:endoftext|end_of_text|eot_id|return)\|>|</s>")
_CONCLUSION = re.compile(
    r"=|\b(?:so|therefore|thus|hence|makes?|total|left|answer|result)\b", re.IGNORECASE
)
_INTRODUCTION = re.compile(
    r"\b(?:restate|rephrase|repeat|let|understand|here|question|problem|task|exercise)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a reader takes for a response's answer.

    Attributes:
        text: the text that counts; the response itself if nothing was removed.
        clause: the text after the last marker that is not followed by a mere remark ("the answer is
            correct"), up to the end of its clause; None without a marker.
        span: start of the last marker and end of its clause, in characters of ``text``.
        markers: all markers, in order; None if there are more than ``MAX_MARKERS``.
    """

    text: str
    clause: str | None = None
    span: tuple[int, int] | None = None
    markers: Sequence[Marker] | None = ()


@lru_cache(maxsize=2)  # a rule reads it, and then the judge's prompt
def committed(response: str) -> Committed:
    """What a response committed to; of more than ``MAX_RESPONSE`` characters, its end is read."""
    visible = read_thinking(response).text[-MAX_RESPONSE:]
    text = without_run_on(without_hidden(visible))
    text = text if text == response else text.strip()
    markers = read_markers(text)
    if not markers:
        return Committed(text, markers=markers)
    last = next((marker for marker in reversed(markers) if not is_remark(marker.text)), markers[-1])
    return Committed(text, last.text.strip(), (last.start, last.end), markers)


def asks_again(text: str) -> bool:
    """Whether a question or turn follows other text, which may be an answer without a marker."""
    turns = [start for start, _ in _turns(text)] + _asked(text.replace("\uff1f", "?"))[:1]
    return any(text[:start].strip() for start in turns)


def _asked(text: str) -> list[int]:
    """Where labelled questions start; the first one may be the task, repeated."""
    if "?" not in text:
        return []
    labels = islice(_ASKED.finditer(text), MAX_TURNS)
    return [at.start() for at in labels if "?" in text[at.end() : at.end() + MAX_QUESTION]]


def without_run_on(text: str) -> str:
    """The text up to the next question or turn after an answer.

    A question before which there is no answer is the task, repeated. If the response begins with
    a question, the next ones may be steps of the same solution, so they are kept.
    """
    ended = _END_OF_TEXT.search(text)
    if ended and text[: ended.start()].strip() and "<s>" not in text[1 : ended.start()]:
        text = text[: ended.end()]
    turns = _turns(text)
    answered = first_marker(text) if turns else None
    if len(turns) > 1 and not turns[0][1] and not text[: turns[0][0]].strip():
        turns = [turn for turn in turns if turn[1]]
    for position, (start, in_tokens) in enumerate(turns):
        before = text[:start]
        if (answered is not None and answered <= start) or (
            position == 0 and before.strip() and (in_tokens or not _introduces(before))
        ):
            return before
    return text


@lru_cache(maxsize=2)  # the text is looked at once more after the cut
def _turns(text: str) -> Sequence[tuple[int, bool]]:
    """Where questions and turns start, and whether control tokens say so."""
    turns = islice(_find_turns("\n" + text), MAX_TURNS)
    tokens = ((turn.start(), turn[0][0] != "\n") for turn in turns)
    return tuple((start - in_tokens, in_tokens) for start, in_tokens in tokens)


def _find_turns(text: str) -> Iterator[re.Match[str]]:
    """Equivalent to ``_TURN.finditer``."""
    lower = text.lower().replace("\u017f", "s")  # which IGNORECASE takes for an s
    if len(lower) != len(text):
        yield from _TURN.finditer(text)
        return
    signs = {match.start() for match in _SHORT_SIGN.finditer(lower)}
    for sign in _SIGNS_OF_TURNS:
        signs.update(places(lower, sign))
    tried = 0
    for at in sorted(signs):
        for start in _TURN_START.finditer(text, max(tried, at - _BEFORE_SIGN), at + 1):
            turn = _TURN.match(text, start.start()) if start.start() >= tried else None
            if turn:
                yield turn
                tried = turn.end()
        tried = max(tried, at + 1)


def _introduces(text: str) -> bool:
    """Whether a text without a marker may introduce the question that follows it."""
    if _CONCLUSION.search(text):
        return False
    return len(text.split()) > MAX_SHORT_ANSWER or _INTRODUCTION.search(text) is not None


def without_hidden(text: str) -> str:
    """The text without what a reader of the rendered page would not see."""
    if not text.isascii():
        text = INVISIBLE.sub("", _REVERSED.sub("", text))
    if "<" in text:
        text = _without_unseen_tags(_without_comments(text))
    if "\\" in text:
        text = _WHITE.sub("", _without_arguments(text))
    return _LATEX_COMMENT.sub(_without_answer, text) if "%" in text else text


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
    for brace in BRACE.finditer(text):
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
