r"""Parse the number with which a response replaces a retracted one.

read_replacement("#### 17\nWait, that is wrong. It should be 18.")  # 18
read_replacement("17. No, 18 dollars.")                             # 18
read_replacement("17. No, not 18.")                                 # None
read_replacement("17, or maybe 18.")                                # None: nothing is retracted
"""

from __future__ import annotations

import re

from reward_serve.numbers.parsing import Number, parse_number, plain_text
from reward_serve.numbers.words import ANY_NUMBER_WORD, DOUBTS, UNIT_DOUBTS
from reward_serve.verifiers.vocabulary import LEAD_DOUBTS, STATEMENT_DOUBTS

MAX_TAIL = 240
MAX_BEFORE = 1_000

_GAP = r"(?:[\s,.;:!*_\u2014]|-(?=\s))*"
_RETRACTION = (
    r"(?:(?:i'?m )?(?:so |very )?sorry|my apologies|scratch that|strike that|correction|wait"
    r"|no|nope|hold on|actually|on second thoughts?|oops|whoops|my mistake|my bad|not quite"
    r"|i (?:have )?(?:made|see) (?:a|an|my) (?:mistake|error|slip)|i was wrong|i take that back"
    r"|i (?:forgot|missed) (?:a|one) step|let me (?:correct|fix|redo) (?:that|this|it)"
    r"|(?:that|this|it)(?:'s| is| was) (?:wrong|incorrect|not right|not correct|a mistake|false)"
    r"|(?:that|this|it) (?:cannot|can't|can not) be (?:right|correct|so|true))"
)
_LINK = (
    r"(?:(?:that|it|this|(?:the|my) (?:(?:correct|right|real|actual|final|true|new) )?"
    r"(?:answer|value|result|number|total)|(?:final |correct )?answer|the correct one)"
    r"(?:'s| is| should be| should read| must be| has to be| comes to|:)"
    r"(?: actually| really| then)?"
    r"|i (?:meant|mean|now get|get|should have said)|make (?:that|it)|so|then"
    r"|i (?:now )?change my (?:final )?answer to|\#\#\#\#|\\boxed\{)"
)
_STARTS = re.compile(rf"(?<![a-z]){_RETRACTION}(?![a-z])", re.IGNORECASE)
_REPLACEMENT = re.compile(
    rf"{_RETRACTION}(?:{_GAP}{_RETRACTION})*(?![a-z])(?P<gap>{_GAP})"
    rf"(?P<links>(?:{_LINK}{_GAP}){{0,2}})(?P<number>[^,;?=]{{1,60}}?)\}}?[\s.!*_$]*",
    re.IGNORECASE,
)
_NUMERAL = re.compile(rf"\d|\b{ANY_NUMBER_WORD}\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\n")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_DOUBTED = DOUBTS | LEAD_DOUBTS | STATEMENT_DOUBTS - {"all"}


def read_replacement(response: str) -> tuple[Number, str] | None:
    """Parse the number with which the end of the response replaces an earlier one.

    Args:
        response: The policy's response.

    Returns:
        The number and its text, or None.
    """
    text = plain_text(response[-MAX_BEFORE:])
    tail = max(0, len(text) - MAX_TAIL)
    if not text[tail:].isascii():
        return None
    for start in _STARTS.finditer(text, tail):
        found = _REPLACEMENT.fullmatch(text, start.start())
        before = text[: start.start()]
        if found is None or not _takes_back(before):
            continue
        number = parse_number(found["number"])
        if number is None or not (found["links"] or re.search(r"[.,!;\n]", found["gap"])):
            continue  # "not quite 18"
        plain = not number.unit or number.unit[0] in before.lower() or found["links"]
        if len(number.unit) > (3 if found["links"] else 1) or not plain:
            continue  # "wait, 18 eggs broke"
        if not (UNIT_DOUBTS | STATEMENT_DOUBTS).intersection(number.unit):
            return number, found["number"]
    return None


def _takes_back(before: str) -> bool:
    """Whether the text ends in an undoubted statement of a number, which can be retracted."""
    said = [one for one in _SENTENCE_END.split(before) if any(map(str.isalnum, one))]
    if not said:
        return False
    last = said[-1]
    words = _WORD.findall(last.lower())
    ended = before.rstrip(" *_$")[-1:] in ".!?;\n}" or before.endswith("\n")
    bare = parse_number(last.rstrip(" ,-*_")) is not None
    return (ended or bare) and bool(_NUMERAL.search(last)) and _DOUBTED.isdisjoint(words)
