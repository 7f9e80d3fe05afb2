r"""Find where a response holds what a rule matched: for explanations, and not for verdicts.

    located("So #### 18", verify("So #### 18", "18")).span  # (3, 10)

Rules read rewritten text (numbers in digits, nothing that is struck out), whose places they do not
keep: that would cost every verdict. So a marker is read again, and other words are looked for.
"""

from __future__ import annotations

import re
from dataclasses import replace

from reward_serve.verifiers.gsm8k import MAX_RESPONSE, Verification
from reward_serve.verifiers.markers import read_markers

_WHOLE = frozenset(["empty_response", "only_opener"])
_THINK_END = "</think>"
_WORD = re.compile(r"\w+")
_BETWEEN = r"[^\w]{1,24}"
_MAX_WORDS = 80


def located(response: str, verification: Verification) -> Verification:
    """The verification with the span of what its rule matched."""
    return replace(verification, span=span_of(response, verification.rule, verification.answer))


def span_of(response: str, rule: str, answer: str | None) -> tuple[int, int] | None:
    """Start and end in the response of what a rule matched; None where it matched no words.

    A marker's span has the marker in it. Of other words it is their last place in the response; of
    a sentence whose beginning was rewritten, its end.

    Args:
        response: What the policy wrote.
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
    if not rule.startswith(("statement", "replacement")):
        for marker in reversed(read_markers(visible) or []):
            if marker.text.strip() == answer:
                return begin + marker.start, begin + marker.end
    found = _last(visible, answer)
    return None if found is None else (begin + found[0], begin + found[1])


def _last(text: str, words: str) -> tuple[int, int] | None:
    """The last place of the words, whatever stands between them; else of the last of them."""
    at = text.rfind(words)
    if at >= 0:
        return at, at + len(words)
    found = _WORD.findall(words)[-_MAX_WORDS:]
    while found:
        pattern = rf"(?<!\w){_BETWEEN.join(map(re.escape, found))}(?!\w)"
        places = [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]
        if places:
            return places[-1]
        found = found[(len(found) + 1) // 2 :]
    return None
