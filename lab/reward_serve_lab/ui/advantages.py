"""Group-relative advantages as each trainer computes them from a group's rewards.

Samples without a score are excluded from their group's mean and deviation, as in this project's
adapters: TRL gets ``None``, SkyRL and verl drop the row.

    >>> [round(a, 3) for a in advantages([1.0, 0.0], "GRPO, SkyRL and verl")]
    [0.707, -0.707]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev


def _scaled(epsilon: float) -> Callable[[Sequence[float]], list[float]]:
    def scale(rewards: Sequence[float]) -> list[float]:
        mean, deviation = fmean(rewards), stdev(rewards)
        return [(reward - mean) / (deviation + epsilon) for reward in rewards]

    return scale


def _centered(rewards: Sequence[float]) -> list[float]:
    mean = fmean(rewards)
    return [reward - mean for reward in rewards]


def _leave_one_out(rewards: Sequence[float]) -> list[float]:
    size = len(rewards)
    return [(reward - fmean(rewards)) * size / (size - 1) for reward in rewards]


TRAINERS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {
    "GRPO, SkyRL and verl": _scaled(1e-6),
    "GRPO, TRL": _scaled(1e-4),
    "Dr. GRPO, no deviation": _centered,
    "RLOO, leave one out": _leave_one_out,
}
"""Advantage functions by name, with sample deviations (n - 1) as in torch.std."""


def advantages(rewards: Sequence[float | None], trainer: str) -> list[float | None]:
    """The advantage of each sample of one group; None for samples without a score.

    All are 0 if fewer than two samples have a score.
    """
    known = [reward for reward in rewards if reward is not None]
    if len(known) < 2:
        return [None if reward is None else 0.0 for reward in rewards]
    computed = iter(TRAINERS[trainer](known))
    return [None if reward is None else next(computed) for reward in rewards]
