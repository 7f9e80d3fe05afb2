"""Questions with known right answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Body = dict[str, Any]

_LARGEST = 999_999  # the judge is shown numbers of up to six digits as they are


@dataclass(frozen=True)
class Question:
    """A request and its right score.

    Attributes:
        body: the request as sent, with a unique ``id`` and ``metadata``.
        right: 1.0 or 0.0.
    """

    body: Body
    right: float


Pair = tuple[Body, float]


def prose(rng: Random) -> Pair:
    """A question that no rule decides; ``standin.StandIn`` does, by its two numbers."""
    answer, reference = _numbers(rng, _LARGEST)
    body = {"response": f"It comes to {answer} in all", "reference": str(reference)}
    return body, float(answer == reference)


def marked(rng: Random) -> Pair:
    """A worked solution with a marked final answer, which a rule or a judge can decide."""
    answer, reference = _numbers(rng, 2_000)
    first = rng.randrange(1, answer)
    working = f"There are {first} red and {answer - first} blue marbles. "
    working += f"Together that is {first} + {answer - first} = {answer} marbles."
    body = {"response": f"{working}\n#### {answer}", "reference": f"#### {reference}"}
    return body, float(answer == reference)


def _numbers(rng: Random, largest: int) -> tuple[int, int]:
    """An answer and a reference, equal half of the time."""
    answer = rng.randrange(2, largest - 100)
    return answer, answer if rng.random() < 0.5 else answer + rng.randrange(1, 100)


def questions_of(
    draw: Callable[[Random], Pair],
    run: str,
    timeout_s: float,
    options: Sequence[Body] = ({},),
) -> Iterator[Question]:
    """Endless questions with unique ids.

    Args:
        draw: makes or picks a question.
        run: prefix of every id, and the seed of the draws.
        timeout_s: each request's deadline.
        options: a request's options are drawn from these.
    """
    rng = Random(f"{run}-0")
    for number in itertools.count():
        body, right = draw(rng)
        fields = {
            "id": f"{run}-{number}",
            "metadata": {"number": number},
            "timeout_s": timeout_s,
            "options": rng.choice(options),
        }
        yield Question({**body, **fields}, right)
