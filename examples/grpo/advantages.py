"""Group-relative advantages of GRPO (Shao et al., 2024), without undecided samples.

A sample without a verdict has no advantage and no part in its group's mean and deviation. Masking
it would not be enough: the engine's loss averages over the samples that it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

_EPSILON = 1e-6


def group_advantages(rewards: Sequence[float | None]) -> list[float | None]:
    """``(reward - mean) / (deviation + 1e-6)`` over the decided; None where undecided.

    All are 0.0 where fewer than two are decided or their rewards are equal.
    """
    decided = [reward for reward in rewards if reward is not None]
    if len(decided) < 2:
        return [None if reward is None else 0.0 for reward in rewards]
    mean, deviation = fmean(decided), stdev(decided)
    return [
        None if reward is None else (reward - mean) / (deviation + _EPSILON) for reward in rewards
    ]
