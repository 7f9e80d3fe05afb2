r"""Read the number that a response puts in the place of one it takes back.

read_replacement("#### 17\nWait, that is wrong. It should be 18.")  # 18
read_replacement("17. No, 18 dollars.")                             # 18
read_replacement("17. No, not 18.")                                 # None
read_replacement("17, or maybe 18.")                                # None: nothing is taken back
"""

from __future__ import annotations

import re

from reward_serve.verifiers.numbers import Number, parse_number, plain_text
from reward_serve.verifiers.vocabulary import NUMBER_WORDS, STATEMENT_DOUBTS, UNIT_DOUBTS

MAX_TAIL = 240

_GAP = r"(?:[\s,.;:!*_\u2014]|-(?=\s))*"
_RETRACTION = (
    r"(?:(?:i'?m )?(?:so |very )?sorry|my apologies|scratch that|strike that|correction|wait"
    r"|no|nope|hold on|actually|on second thoughts?|oops|whoops|hmm+|my mistake|my bad|not quite"
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
    r"|i (?:now )?change my (?:final )?answer to|\#\#\#\#|\\boxed\{|\$)"
)
_REPLACEMENT = re.compile(
    rf"(?<![a-z]){_RETRACTION}(?:{_GAP}{_RETRACTION})*(?![a-z]){_GAP}(?:{_LINK}{_GAP}){{0,2}}"
    r"(?P<number>[^,;?=]{1,60}?)\}?[\s.!*_$]*",
    re.IGNORECASE,
)
_NUMERAL = re.compile(rf"\d|\b(?:{'|'.join(NUMBER_WORDS)})\b", re.IGNORECASE)


def read_replacement(response: str) -> Number | None:
    """Read the number that the response's last words put in the place of an earlier one, or None.

    Args:
        response: What the policy wrote.
    """
    tail = plain_text(response[-MAX_TAIL:])
    if not tail.isascii():
        return None
    for start in re.finditer(rf"(?<![a-z]){_RETRACTION}(?![a-z])", tail, re.IGNORECASE):
        found = _REPLACEMENT.fullmatch(tail, start.start())
        before = response[: len(response) - len(tail) + start.start()]
        if found is None or not _NUMERAL.search(before) or before.rstrip(" ")[-1:].isalnum():
            continue  # "your helper no. 9"
        number = parse_number(found["number"])
        if number is not None and not (UNIT_DOUBTS | STATEMENT_DOUBTS).intersection(number.unit):
            return number
    return None
