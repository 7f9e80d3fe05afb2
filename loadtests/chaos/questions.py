"""Questions with known right answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from reward_serve.logprobs import LogprobsResult
from reward_serve.schema import ScoreResult

Body = dict[str, Any]

_LARGEST = 999_999  # the judge is shown numbers of up to six digits as they are


@dataclass(frozen=True)
class Question:
    """A request and its right answer.

    Attributes:
        body: the request as sent, with a unique ``id`` and ``metadata``.
        right: 1.0 or 0.0; of a teacher, the log-probability of each scored token.
    """

    body: Body
    right: Any


Pair = tuple[Body, Any]

_NEAR = 1e-3
"""Largest difference of a log-probability; the same tokens in other steps differ by 5e-5."""


def is_right(question: Question, answer: ScoreResult | LogprobsResult) -> bool:
    """Whether an answer with status ``ok`` is its question's own."""
    if isinstance(answer, ScoreResult):
        return bool(answer.score == question.right)
    same_tokens = answer.logprobs.shape == np.shape(question.right)
    return same_tokens and bool(np.abs(answer.logprobs - question.right).max() < _NEAR)


def sequences(rng: Random, count: int, lengths: tuple[int, int], start: int = 1) -> list[Body]:
    """Requests to the bundled model as a teacher, of random tokens."""
    sizes = [rng.randint(*lengths) for _ in range(count)]
    # The first 32 ids are control tokens.
    ids = ([rng.randrange(32, 49_152) for _ in range(size)] for size in sizes)
    return [{"token_ids": token_ids, "start": start} for token_ids in ids]


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
    options: Sequence[Body] | None = ({},),
) -> Iterator[Question]:
    """Endless questions with unique ids.

    Args:
        draw: makes or picks a question.
        run: prefix of every id, and the seed of the draws.
        timeout_s: each request's deadline.
        options: a request's options are drawn from these; None: it has none, as of a teacher.
    """
    rng = Random(f"{run}-0")
    for number in itertools.count():
        body, right = draw(rng)
        fields = {
            "id": f"{run}-{number}",
            "metadata": {"number": number},
            "timeout_s": timeout_s,
            **({"options": rng.choice(options)} if options else {}),
        }
        yield Question({**body, **fields}, right)
