r"""Find the text of a response that a rule matched, for explanations only.

    located("So #### 18", verify("So #### 18", "18")).span  # (3, 10)

Rules work on rewritten text (typographic signs in ASCII, deletions removed) and do not track
offsets, which would slow down every verdict. So markers are parsed again, and other text is
searched for.
"""

from __future__ import annotations

import re
from dataclasses import replace

from reward_serve.rules.committed import MAX_RESPONSE
from reward_serve.rules.grade import Grade
from reward_serve.rules.markers import read_markers

_WHOLE = frozenset(["empty_response", "only_opener"])
_THINK_END = "</think>"
_WORD = re.compile(r"\w+")
_BETWEEN = r"[^\w]{1,24}"
_MAX_WORDS = 80
_WINDOW, _OVERLAP = 2**15, 2**12  # characters; each search holds the GIL


def located(response: str, grade: Grade) -> Grade:
    """The grade with the span of its rule's match, where the rule did not give it."""
    span = grade.span or span_of(response, grade.rule, grade.answer)
    return replace(grade, span=span)


def span_of(response: str, rule: str, answer: str | None) -> tuple[int, int] | None:
    """The start and end of a rule's match in the response; None if it matched no text.

    A marker's span includes the marker. Other text is found at its last occurrence; if the
    beginning of a sentence was rewritten, the span covers its end.

    Args:
        response: The policy's response.
        rule: The rule that decided, or abstained.
        answer: The text that it compared.
    """
    if rule in _WHOLE:
        return 0, len(response)
    if not answer or len(response) > MAX_RESPONSE:
        return None
    begin = response.rfind(_THINK_END)
    begin = begin + len(_THINK_END) if begin >= 0 else 0
    visible = response[begin:].partition("<think>")[0]
    for marker in reversed(read_markers(visible) or []):
        if marker.text.strip() == answer:
            return begin + marker.start, begin + marker.end
    found = _last(visible, answer)
    return None if found is None else (begin + found[0], begin + found[1])


def _last(text: str, words: str) -> tuple[int, int] | None:
    """The last occurrence of the words, with any punctuation between them, or of the last ones."""
    at = text.rfind(words)
    if at >= 0:
        return at, at + len(words)
    found = _WORD.findall(words)[-_MAX_WORDS:]
    while found:
        words_apart = _BETWEEN.join(map(re.escape, found))
        pattern = re.compile(rf"(?<!\w){words_apart}(?!\w)", re.IGNORECASE)
        for end in range(len(text), 0, -_WINDOW):
            start = max(0, end - _WINDOW - _OVERLAP)
            places = [match.span() for match in pattern.finditer(text, start, end)]
            if places:
                return places[-1]
        found = found[(len(found) + 1) // 2 :]
    return None
