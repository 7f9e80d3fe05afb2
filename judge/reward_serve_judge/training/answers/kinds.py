"""Draws answers of the kinds other than numbers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.bases import Based
from reward_serve_judge.training.answers.formulas import Formula
from reward_serve_judge.training.answers.intervals import Interval, Union
from reward_serve_judge.training.answers.measures import Day, Duration, Quantity, Time
from reward_serve_judge.training.answers.sequences import Ordered, Unordered
from reward_serve_judge.training.answers.words import Choice, Symbol, Verdict, Words

_DRAWS: tuple[tuple[float, Callable[[Random], Answer]], ...] = (
    (0.14, Formula.invented),
    (0.10, Ordered.pair),
    (0.08, Ordered.list),
    (0.08, Unordered.invented),
    (0.11, Interval.invented),
    (0.05, Union.invented),
    (0.09, Verdict.invented),
    (0.06, Choice.invented),
    (0.06, Words.word),
    (0.09, Words.kindred),
    (0.06, Words.several),
    (0.05, Symbol.invented),
    (0.08, Quantity.invented),
    (0.03, Day.invented),
    (0.09, Time.invented),
    (0.09, Duration.invented),
    (0.06, Based.invented),
)


def drawn(rng: Random) -> Answer:
    """A random answer of a random kind."""
    draws = [draw for _, draw in _DRAWS]
    return rng.choices(draws, [weight for weight, _ in _DRAWS])[0](rng)
