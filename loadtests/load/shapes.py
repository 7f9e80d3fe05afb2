"""Load over time: numbers of callers, and arrival times of GRPO rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

Shape = Literal["steady", "ramp", "spike", "soak", "grpo_burst", "long_rollouts"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

TICK_S = 1.0
"""Seconds between a caller's requests, or longer if the answer takes longer."""

_PEAK: dict[Shape, int] = {
    "steady": 8, "ramp": 24, "spike": 64, "soak": 4, "grpo_burst": 1, "long_rollouts": 1,
}  # fmt: skip
_LASTS_S: dict[Shape, float] = {
    "steady": 60, "ramp": 120, "spike": 60, "soak": 1800, "grpo_burst": 60, "long_rollouts": 60,
}  # fmt: skip
_OPEN: tuple[Shape, ...] = ("grpo_burst", "long_rollouts")
_SPIKE = (0.4, 0.6)
_CALM_SHARE = 8


@dataclass(frozen=True)
class Load:
    """A shape with its size.

    Attributes:
        shape: its name.
        users: callers at the peak; 1 in an open loop, where it is the trainer.
        duration_s: its duration.
    """

    shape: Shape
    users: int
    duration_s: float

    @classmethod
    def of(cls, shape: str, users: int = 0, duration_s: float = 0.0) -> Load:
        """Create a shape by name; a size of 0 selects the shape's default.

        Raises:
            ValueError: the shape is unknown, or a size is negative.
        """
        for known in SHAPES:
            if known == shape:
                break
        else:
            raise ValueError(f"shape: unknown {shape!r}; known: {', '.join(SHAPES)}")
        if users < 0 or duration_s < 0:
            raise ValueError("users and duration: must not be negative")
        peak = 1 if known in _OPEN else users or _PEAK[known]
        return cls(known, peak, duration_s or _LASTS_S[known])

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive regardless of earlier answers."""
        return self.shape in _OPEN

    @property
    def long(self) -> bool:
        """Whether responses are long generated ones instead of the file's."""
        return self.shape == "long_rollouts"

    def users_at(self, elapsed_s: float) -> int | None:
        """Callers at a time of the run; None when it is over.

        ``steady`` and ``soak`` are constant, ``ramp`` grows evenly from 1, ``spike`` has all
        callers in the middle fifth of the run and an eighth of them before and after.
        """
        if elapsed_s >= self.duration_s:
            return None
        share = elapsed_s / self.duration_s
        if self.shape == "ramp":
            return 1 + int(share * self.users)
        if self.shape == "spike" and not _SPIKE[0] <= share < _SPIKE[1]:
            return max(1, self.users // _CALM_SHARE)
        return self.users


@dataclass(frozen=True)
class Bursts:
    """GRPO rollouts: a batch of prompts every period, each with a group of samples.

    Attributes:
        prompts: prompts per batch.
        samples: samples per prompt.
        period_s: seconds between the starts of batches.
        rollout_s: duration of a batch's longest rollout.
        sigma: sigma of the log-normal distribution of rollout lengths.
    """

    prompts: int
    samples: int
    period_s: float
    rollout_s: float
    sigma: float

    def __post_init__(self) -> None:
        if min(self.prompts, self.samples) < 1 or min(self.period_s, self.rollout_s) <= 0:
            raise ValueError("prompts, samples, period and rollout-seconds: must be positive")
        if self.sigma < 0:
            raise ValueError("sigma: must not be negative")

    def starts(self, duration_s: float) -> list[float]:
        """Start times in seconds of the batches whose rollouts end within the run.

        Raises:
            ValueError: no batch ends within the run.
        """
        count = int((duration_s - self.rollout_s) / self.period_s) + 1
        if duration_s < self.rollout_s:
            raise ValueError(
                f"duration: {duration_s:g} s is shorter than a batch's rollouts "
                f"(rollout-seconds {self.rollout_s:g})"
            )
        return [number * self.period_s for number in range(count)]

    def ends(self, rng: Random) -> list[float]:
        """End times of a batch's rollouts in seconds from its start, unordered.

        Lengths are log-normal, scaled so that the longest is ``rollout_s``.
        """
        drawn = [rng.lognormvariate(0.0, self.sigma) for _ in range(self.prompts * self.samples)]
        return [self.rollout_s * each / max(drawn) for each in drawn]
