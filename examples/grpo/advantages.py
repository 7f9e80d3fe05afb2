"""Group-relative advantages of GRPO (Shao et al., 2024) over decided samples.

An undecided sample has no advantage and is excluded from its group's mean and deviation. Masking it
would not be enough, because the engine's loss averages over all samples that it receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

_EPSILON = 1e-6


def group_advantages(rewards: Sequence[float | None]) -> list[float | None]:
    """``(reward - mean) / (deviation + 1e-6)`` over decided samples; None if undecided.

    Advantages are 0.0 if fewer than two samples are decided or all rewards are equal.
    """
    decided = [reward for reward in rewards if reward is not None]
    if len(decided) < 2:
        return [None if reward is None else 0.0 for reward in rewards]
    mean, deviation = fmean(decided), stdev(decided)
    return [
        None if reward is None else (reward - mean) / (deviation + _EPSILON) for reward in rewards
    ]
