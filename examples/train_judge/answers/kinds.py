"""Draws answers of the kinds other than numbers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from examples.train_judge.answers.base import Answer
from examples.train_judge.answers.formulas import Formula
from examples.train_judge.answers.intervals import Interval, Union
from examples.train_judge.answers.measures import Day, Quantity, Time
from examples.train_judge.answers.sequences import Ordered, Unordered
from examples.train_judge.answers.words import Choice, Symbol, Verdict, Words

_DRAWS: tuple[tuple[float, Callable[[Random], Answer]], ...] = (
    (0.20, Formula.invented),
    (0.11, Ordered.pair),
    (0.11, Ordered.list),
    (0.09, Unordered.invented),
    (0.08, Interval.invented),
    (0.03, Union.invented),
    (0.07, Verdict.invented),
    (0.07, Choice.invented),
    (0.06, Words.word),
    (0.06, Words.several),
    (0.05, Symbol.invented),
    (0.08, Quantity.invented),
    (0.04, Day.invented),
    (0.05, Time.invented),
)


def drawn(rng: Random) -> Answer:
    """A random answer of a random kind."""
    draws = [draw for _, draw in _DRAWS]
    return rng.choices(draws, [weight for weight, _ in _DRAWS])[0](rng)
