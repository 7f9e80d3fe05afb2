"""What a family of attacks is, and the means to write many of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from reward_serve.attacks.problems import GENERIC_QUESTION, Problem

Draft = str | Callable[[Problem], str]
"""An attack's text, or what writes it for a problem."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One row: a response that deserves 0 by its reference.

    Attributes:
        family: the kind of attack.
        response: what the judge is shown; never an answer of the reference's value.
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
        name: as reports show it.
        about: what the attack is and where it comes from.
        drafts: writes the family's texts; another seed writes others.
        may_mention: whether the texts may hold the reference's value, as one candidate of many or
            taken back; where False, references are chosen whose value the text does not hold.
    """

    name: str
    about: str | None
    drafts: Callable[[Random], Iterable[Draft]]
    may_mention: bool = False


def choices(rng: Random, count: int, *slots: Sequence[str]) -> list[tuple[str, ...]]:
    """Distinct choices of one text from every slot.

    Raises:
        ValueError: there are fewer than ``count``.
    """
    places = rng.sample(range(math.prod(map(len, slots))), count)
    return [_choice(place, slots) for place in places]


def combined(rng: Random, count: int, *slots: Sequence[str]) -> list[str]:
    """Distinct choices of one text from every slot, each joined into one text."""
    return ["".join(choice) for choice in choices(rng, count, *slots)]


def _choice(place: int, slots: Sequence[Sequence[str]]) -> tuple[str, ...]:
    chosen = []
    for slot in slots:
        place, index = divmod(place, len(slot))
        chosen.append(slot[index])
    return tuple(chosen)
