r"""Find the explicit final-answer markers of a response and analyse the text around them.

A marker is `#### 18`, `\boxed{18}`, `<answer>18</answer>`, `"answer": 18`, "the answer is 18",
"Answer: 18", "A: 18" at a line's start, or a line "**Final Answer**" above the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, zip_longest

from reward_serve.rules.numbers.words import MODIFIER_WORDS, NUMBER_WORDS, word_list
from reward_serve.rules.vocabulary import LEAD_DOUBTS, REMARK_WORDS

MAX_MARKERS = 100
MAX_ANSWER = 200
MAX_BEFORE = 200

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
_NUMBERED = re.compile(r"[ \t]*\d{1,2}(?:[.)][ \t]+| )[A-Z][a-z]")  # "#### 2. Conclusion"
_CLAUSE_END = re.compile(r"(?<!\\)[.!?;](?!\d)|,(?=\s|$)|\n|(?=<[|/])")
_SENTENCE_START = re.compile(r"[.!?](?=\s)|\n")
_WORD = re.compile(r"[a-z]+|\d+")

_NEGATED = re.compile(
    r"n't\b|~~|<!--|<(?:s|del|strike)>|%\s*$|\bn\u00e3o\b|\b\u043d\u0435\b|[\u4e0d\u975e\u9519\u932f\u8bef\u8aa4]"
    r"|\u0644\u064a\u0633|\u05dc\u05d0|\u0928\u0939\u0940\u0902|\bkh\u00f4ng\b|\bnen\u00ed\b|\b\u03b4\u03b5\u03bd\b"
    r"|\b(?:nem|nu|nije|bukan|tidak|hindi|ei ole)\b"
)
_LEADING_WORDS = frozenset(
    word_list(
        """answer write say print put give output reply respond be is are was were as to the that
        than with of or not conclude"""
    )
)
_SUPPOSED = re.compile(r"^\W*(?:had|were|should|provided|in case|when|once)\b")
_SCALED = re.compile(  # "In thousands, the answer is 18"
    r"\bin (?:hundreds|thousands|millions|billions|dozens|pairs|tens|binary|octal|base)\b"
    r"|\bthan or equal to\W*$|\bexceeds?\W*$"
    r"|\b(?:of|than|twice|half|think|guess|believe)(?: that)? (?:the|my|our)(?: final)? answer\b"
)
_BOUNDED = re.compile(  # what LEAD_DOUBTS and MODIFIER_WORDS say in English
    r"(?:\b(?:(?:mehr|weniger) als|mindestens|h\u00f6chstens|(?:h\u00e4lfte|drittel|doppelte) von"
    r"|m\u00e1s de|menos(?: de)?|al menos|como m\u00e1ximo|(?:mitad|tercio|doble|triple) de|casi"
    r"|moins(?: de)?|au (?:moins|plus)|(?:moiti\u00e9|tiers|double|triple) de|presque|fast)"
    r"|[\u5927\u5c0f\u591a\u5c11]\u4e8e(?:\u7b49\u4e8e)?|\u81f3\u5c11|\u81f3\u591a|\u6700\u591a|\u500d\u7684?"
    r"|\u53ef\u80fd\u662f|\u5047\u8bbe\w{0,4})\W*$"
)
_BEFORE_LABEL = re.compile(
    r"(?:^|[,:]|\b(?:so|thus|therefore|hence|then|and|finally|means|implies|conclude))"
    r"[\W_]*(?:that )?$"
)
_BEFORE_BOX = re.compile(r"(?:\s|\$|\*\*|\\[(\[\\$,;:! ])*$")
_BEFORE_BOX_COMMANDS = frozenset(["\\therefore", "\\implies", "\\rightarrow", "\\quad"])
_OPERATOR_BEFORE = re.compile(r"[-+/^<>~(\u2212\u2013\u2248\u00d7]\s*$|(?<!\*)\*\s*$")


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker and the text after it.

    Attributes:
        text: The text after the marker up to the end of its clause, or in its box.
        start: Start of the marker in the response.
        end: End of the text in the response.
        heading: Whether it may be a heading or prose ("#### Step 1"), since it starts with letters.
        doubted: Whether the text before it denies, supposes or changes the number.
    """

    text: str
    start: int
    end: int
    heading: bool
    doubted: bool

    def claims_number(self) -> bool:
        """Whether the text contains a number, even if it cannot be parsed."""
        words = _WORD.findall(self.text.lower())
        if self.heading and words[:1] and words[0] not in NUMBER_WORDS:
            return False
        return any(map(str.isnumeric, self.text)) or not NUMBER_WORDS.isdisjoint(words)


def is_remark(text: str) -> bool:
    """Whether the text after a marker is a remark on the answer: "the answer is correct"."""
    words = [word for word in re.split(r"[\W_]+", text.lower()) if word]
    # A lone letter may be a choice: "the answer is a".
    return REMARK_WORDS.issuperset(words) and any(len(word) > 1 for word in words)


@lru_cache(maxsize=2)  # a response is read once, however many references it is compared with
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
        doubted = _is_doubted(match, response)
        inner = braced(response, match.end()) if match["box"] else None
        if inner is not None:
            text, end = inner
        elif match["tag"]:
            text, end = match["tagged"].strip(), match.end("tagged")
        else:
            text, end = _clause(response, match.end(), stop)
            doubted = doubted or match["box"] is not None
            # In "Answer:-18", the sign may be a dash.
            doubted = doubted or response.startswith(":-", match.end() - 1)
        if any(map(str.isalnum, text)):
            numbered = bool(match["hash"] and _NUMBERED.match(response, match.end()))
            numbered = numbered and bool(response[end:].strip(" \n.*$"))
            heading = match["label"] is None and match["box"] is None and text[0].isalpha()
            doubted = doubted or numbered
            markers.append(Marker(text, match.start(), end, heading or numbered, doubted))
    return tuple(markers)


def first_marker(response: str) -> int | None:
    """The position after the first marker, whatever follows it; None without a marker."""
    match = next(_marked(response), None)
    return None if match is None else match.end()


def _marked(response: str) -> Iterator[re.Match[str]]:
    """Equivalent to ``_MARKER.finditer``."""
    end = tried = 0
    for sign in _SIGN.finditer(response):
        if sign.start() < end:
            continue
        first = max(end, tried, sign.start() - _REACH)
        while first > max(end, tried) and response[first - 1] in " \t":
            first -= 1
        tried = sign.start() + 1
        indented = _BLANKS.match(response, min(len(response), sign.end() + 2 * MAX_ANSWER))
        stop = indented.end() + 1 if indented else len(response)
        for at in range(first, tried):
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


def _is_doubted(match: re.Match[str], response: str) -> bool:
    before = response[max(0, match.start() - MAX_BEFORE) : match.start()]
    above, _, line = before.rpartition("\n")
    if not any(map(str.isalnum, line)) and _leads_on(above):
        before = f"{above.rstrip()} {line}"
    before = _SENTENCE_START.split(before)[-1].lower()
    doubts = LEAD_DOUBTS.intersection(_WORD.findall(before))
    patterns = (_SCALED, _BOUNDED, _NEGATED, _SUPPOSED)
    if doubts or any(pattern.search(before) for pattern in patterns):
        return True
    if match["label"] or match["key"]:
        return _BEFORE_LABEL.search(before) is None
    words = _WORD.findall(before.rpartition("=")[2])
    words = [word for word in words if word not in {"the", "a", "an"}]
    after_range = words[-1:] == ["to"] and "".join(words[-2:-1]).isdigit()
    if after_range or (MODIFIER_WORDS - {"to"}).intersection(words[-2:]):
        return True
    if match["box"] is None:
        return _OPERATOR_BEFORE.search(before) is not None
    return not _box_may_follow(before)


def _leads_on(above: str) -> bool:
    """Whether a text continues on the next line: "This is wrong:"."""
    above = above.rstrip(" \n\t*_`>#$")
    words = _WORD.findall(above[-20:].lower())
    runs_on = above[-1:].isalpha() and not _LEADING_WORDS.isdisjoint(words[-1:])
    return runs_on or above[-1:] == ":"


def _box_may_follow(before: str) -> bool:
    gap = _BEFORE_BOX.search(before)
    start = gap.start() if gap else len(before)
    text, space = before[:start], before[start:]
    if not text:
        return True
    if text[-1] in ":=":
        return text[-2:-1] not in set("<>!~=")
    if command := re.search(r"\\[a-z]+$", text):
        return command[0] in _BEFORE_BOX_COMMANDS
    return (text[-1] in ".,;!" or text[-1].isalpha()) and any(map(str.isspace, space))
