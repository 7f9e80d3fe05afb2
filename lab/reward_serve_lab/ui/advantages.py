"""Group-relative advantages as each trainer computes them from a group's rewards.

A sample without a score is left out of its group's mean and deviation, as this project's adapters
have it: in TRL by ``None``, in SkyRL and verl by leaving the row out.

    >>> [round(a, 3) for a in advantages([1.0, 0.0], "GRPO, SkyRL and verl")]
    [0.707, -0.707]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev


def _scaled(epsilon: float) -> Callable[[Sequence[float]], list[float]]:
    def of(rewards: Sequence[float]) -> list[float]:
        mean, deviation = fmean(rewards), stdev(rewards)
        return [(reward - mean) / (deviation + epsilon) for reward in rewards]

    return of


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
"""By name: deviations are of a sample (n - 1), as torch.std's."""


def advantages(rewards: Sequence[float | None], trainer: str) -> list[float | None]:
    """The advantage of each sample of one group; None where there is no score.

    All are 0 where fewer than two have a score.
    """
    known = [reward for reward in rewards if reward is not None]
    if len(known) < 2:
        return [None if reward is None else 0.0 for reward in rewards]
    computed = iter(TRAINERS[trainer](known))
    return [None if reward is None else next(computed) for reward in rewards]
