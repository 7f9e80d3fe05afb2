"""The GSM8K rewards of SkyRL and verl, with the same score for the same text.

A response scores 1 if the number after a ``#### ``, as text without commas, is the gold answer.
SkyRL (``skyrl_gym.envs.gsm8k.utils``) takes the first one in the response; verl
(``verl.utils.reward_score.gsm8k``) takes the last one in the final 300 characters. Unlike theirs, a
reference may be a whole solution, or contain commas or ``$``.
"""

from __future__ import annotations

import re

from reward_serve.rules.grade import WRONG, Grade
from reward_serve.rules.texts import gold_answer

CLIP_CHARACTERS = 300

_MARKED = re.compile(r"#### (-?[0-9.,]+)")


def grade_strict_first(response: str, reference: str) -> Grade:
    """SkyRL's: the first ``#### <number>`` counts.

    Raises:
        UnusableReferenceError: the reference holds no answer.
    """
    found = _MARKED.search(response)
    return _grade(found, 0, reference)


def grade_strict_last(response: str, reference: str) -> Grade:
    """verl's: the last ``#### <number>`` of the final 300 characters counts.

    Raises:
        UnusableReferenceError: the reference holds no answer.
    """
    *_, found = (None, *_MARKED.finditer(response[-CLIP_CHARACTERS:]))
    return _grade(found, max(0, len(response) - CLIP_CHARACTERS), reference)


def _grade(found: re.Match[str] | None, clipped: int, reference: str) -> Grade:
    gold = gold_answer(reference).replace(",", "").replace("$", "").strip()
    if found is None:
        return Grade(WRONG, "no_marker")
    right = found[1].replace(",", "") == gold
    span = (clipped + found.start(), clipped + found.end())
    return Grade(float(right), "marker_matches" if right else "marker_differs", found[1], span)
