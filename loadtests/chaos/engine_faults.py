"""Engine faults drawn at a seeded rate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Literal

Fault = Literal[
    "delay", "exception", "bug", "cancelled", "silent", "nan", "garbage", "planted", "truncated"
]

_ANY: dict[Fault, float] = {
    "delay": 1.0,
    "exception": 1.0,
    "bug": 1.0,
    "cancelled": 1.0,
    "silent": 0.1,  # each lasts until its deadline
}
LABEL: dict[Fault, float] = {**_ANY, "nan": 1.0}
"""Fault to its weight, in label mode."""
GENERATE: dict[Fault, float] = {**_ANY, "garbage": 1.0, "planted": 1.0, "truncated": 1.0}
"""Fault to its weight, in generate mode."""


@dataclass
class Faults:
    """Draws a fault for each engine call.

    Any call: ``delay`` answers late, ``exception`` raises the engine's own error, ``bug`` another
    one, ``cancelled`` drops the call, ``silent`` never answers. Label mode: ``nan`` probabilities.
    Generate mode: ``garbage`` has no verdict, ``planted`` has a valid verdict before an invalid
    last one, ``truncated`` is cut off after a verdict.

    Attributes:
        rate: share of calls that fail.
        seed: seed of the draws.
        counts: calls and faults so far.
    """

    rate: float = 0.0
    seed: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)

    def draw(self, weights: dict[Fault, float]) -> Fault | None:
        """The fault of the next call, or None."""
        self.counts["calls"] += 1
        if self._rng.random() >= self.rate:
            return None
        (fault,) = self._rng.choices(list(weights), list(weights.values()))
        self.counts[fault] += 1
        return fault
