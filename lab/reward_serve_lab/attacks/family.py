"""The types of attacks and attack families, and functions that combine text fragments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from reward_serve_lab.attacks.problems import GENERIC_QUESTION, Problem

Draft = str | Callable[[Problem], str]
"""An attack's text, or a function that writes it for a problem."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A response that deserves a score of 0 for its reference.

    Attributes:
        family: name of the attack family.
        response: the text to judge; it never answers with the reference's value.
        reference: the gold answer or solution.
        question: the problem, for templates that show it.
    """

    family: str
    response: str
    reference: str
    question: str = GENERIC_QUESTION


@dataclass(frozen=True, slots=True)
class Family:
    """Attacks of one kind.

    Attributes:
        name: name in reports.
        about: what the attack is and where it was published.
        drafts: generates the family's texts from a seeded ``Random``.
        may_mention: whether the texts may contain the reference's value, as one candidate among
            several or retracted. If False, only references whose value is not in the text are used.
    """

    name: str
    about: str
    drafts: Callable[[Random], Iterable[Draft]]
    may_mention: bool = False


def filled(pattern: str, distance: int, problem: Problem) -> str:
    """The pattern with the problem's answer as ``right`` and another number as ``wrong``."""
    return pattern.format(right=problem.answer, wrong=problem.near(distance))


def choices(rng: Random, count: int, *slots: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Draw ``count`` distinct combinations, one part from each slot.

    Raises:
        ValueError: there are fewer than ``count`` combinations.
    """
    places = rng.sample(range(math.prod(map(len, slots))), count)
    return [_choice(place, slots) for place in places]


def combined(rng: Random, count: int, *slots: Sequence[str]) -> list[str]:
    """``choices``, with each combination joined into one text."""
    return ["".join(choice) for choice in choices(rng, count, *slots)]


def _choice(place: int, slots: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    chosen = []
    for slot in slots:
        place, index = divmod(place, len(slot))
        chosen.append(slot[index])
    return tuple(chosen)
