"""Compares the whole response with the reference, except for invisible differences."""

from __future__ import annotations

import unicodedata

from reward_serve.rules.grade import Grade


def normalised(text: str) -> str:
    """The text in Unicode NFC, with runs of whitespace replaced by a space and stripped.

    Case, punctuation and compatibility characters (², full-width letters) are kept.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def grade_exact(response: str, reference: str) -> Grade:
    """Right if the response after its thinking equals the reference, both normalised."""
    answer = response.rpartition("</think>")[2]
    right = normalised(answer) == normalised(reference)
    span = (len(response) - len(answer), len(response))
    return Grade(float(right), "text_matches" if right else "text_differs", span=span)
