"""The types of attacks and attack families, and functions that combine text fragments."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from reward_serve.messages import Message
from reward_serve_lab.attacks.problems import GENERIC_QUESTION, Problem

Draft = str | Callable[[Problem], str | list[dict[str, Any]]]
"""An attack's text, or a function that writes it, or a conversation, for a problem."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A response that deserves a score of 0 for its reference.

    Attributes:
        family: name of the attack family.
        response: the text to judge; it never answers with the reference's value.
        reference: the gold answer or solution.
        question: the problem, for templates that show it.
        messages: a conversation that contains the response as its last assistant turn; else empty.
    """

    family: str
    response: str
    reference: str
    question: str = GENERIC_QUESTION
    messages: Sequence[Mapping[str, Any]] = field(default=(), hash=False)

    @property
    def request(self) -> dict[str, Any]:
        """The fields of its score request."""
        if self.messages:
            return {"messages": [*self.messages], "reference": self.reference}
        return {n: getattr(self, n) for n in ("response", "reference", "question")}

    @property
    def flat(self) -> Attack:
        """The attack without structure: all turns before the response are text in the question."""
        *turns, _ = map(Message.model_validate, self.messages)
        question = "\n".join(f"{turn.role}: {turn.shown}" for turn in turns)
        return replace(self, question=question, messages=())

    @property
    def text(self) -> str:
        """The response; of a conversation, all turns after the task, as JSON."""
        if not self.messages:
            return self.response
        return json.dumps(self.messages[1:], ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Family:
    """Attacks of one kind.

    Attributes:
        name: name in reports.
        description: what the attack is and where it was published.
        drafts: generates the family's texts from a seeded ``Random``.
        may_mention: whether the texts may contain the reference's value, as one candidate among
            several or retracted. If False, only references whose value is not in the text are used.
    """

    name: str
    description: str
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
