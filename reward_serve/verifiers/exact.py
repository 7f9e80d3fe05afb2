"""The whole response is the reference, letter for letter but for what cannot be seen."""

from __future__ import annotations

import unicodedata

from reward_serve.verifiers.base import Grade


def normalised(text: str) -> str:
    """The text composed (Unicode NFC), each run of white space one space, none at the ends.

    Case, punctuation and compatibility forms (², full-width letters) count.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def grade_exact(response: str, reference: str) -> Grade:
    """Right where what follows a response's thinking is the reference, both normalised."""
    answer = response.rpartition("</think>")[2]
    right = normalised(answer) == normalised(reference)
    span = (len(response) - len(answer), len(response))
    return Grade(float(right), "text_matches" if right else "text_differs", span=span)
