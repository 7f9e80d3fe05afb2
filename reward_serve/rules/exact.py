"""Compares the whole response with the reference, except for invisible differences."""

from __future__ import annotations

from reward_serve.rules.committed import without_thinking
from reward_serve.rules.grade import Grade
from reward_serve.rules.texts import normalised


def grade_exact(response: str, reference: str) -> Grade:
    """Right if the response after its thinking equals the reference, both normalised."""
    answer = without_thinking(response)
    right = normalised(answer) == normalised(reference)
    start = len(response) - len(answer) if response.endswith(answer) else 0
    span = (start, len(response))
    return Grade(float(right), "text_matches" if right else "text_differs", span=span)
