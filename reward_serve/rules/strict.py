"""Requires GSM8K's answer format: the right number on a last line ``#### <number>``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reward_serve.rules.grade import ABSTAINED, WRONG, Grade
from reward_serve.rules.gsm8k import verify_any

_CLOSING_LINE = re.compile(r"####[ \t]*[-+$]{0,2}[\d.,]*\d\.?\s*\Z")


def verify_strict_any(response: str, references: Sequence[str]) -> Grade:
    """Like ``verify_any``, but a response that does not end in ``#### <number>`` is wrong.

    Raises:
        UnusableReferenceError: a reference contains no answer.
        ValueError: there is no reference.
    """
    grade = verify_any(response, references)
    answer = response.rpartition("</think>")[2]
    if "<think>" in answer and grade.outcome != "wrong":
        return Grade(ABSTAINED, "unfinished_thinking", grade.answer)
    marked = grade.rule != "number_matches" and _CLOSING_LINE.search(answer[-200:])
    if grade.outcome == "wrong" or marked:
        return grade
    if "####" in answer:
        return Grade(ABSTAINED, "strict_marker_in_doubt", grade.answer)
    return Grade(WRONG, "no_strict_marker", grade.answer)
