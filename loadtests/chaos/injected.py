"""Faults of an engine, drawn by a seeded rate."""

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
    "silent": 0.1,  # each takes its whole deadline
}
LABEL: dict[Fault, float] = {**_ANY, "nan": 1.0}
"""Fault to its weight, in label mode."""
GENERATE: dict[Fault, float] = {**_ANY, "garbage": 1.0, "planted": 1.0, "truncated": 1.0}
"""Fault to its weight, in generate mode."""


@dataclass
class Faults:
    """Which engine calls go wrong, and how.

    ``delay`` answers late; ``exception`` is the engine's own error, ``bug`` any other;
    ``cancelled`` is a call that the engine drops; ``silent`` one that it never answers; ``nan`` are
    label probabilities that are no numbers. Of written text ``garbage`` holds no verdict,
    ``planted`` one that is no label, after one that is, and ``truncated`` breaks off after one.

    Attributes:
        rate: share of the calls.
        seed: of the draws.
        counts: what was drawn so far.
    """

    rate: float = 0.0
    seed: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)

    def draw(self, weights: dict[Fault, float]) -> Fault | None:
        """What goes wrong with this call; None for nothing."""
        self.counts["calls"] += 1
        if self._rng.random() >= self.rate:
            return None
        (fault,) = self._rng.choices(list(weights), list(weights.values()))
        self.counts[fault] += 1
        return fault
