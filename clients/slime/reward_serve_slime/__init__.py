"""Reward functions for slime, scored by a ``reward_serve`` service; undecided samples are masked.

    --custom-rm-path reward_serve_slime.score
    --custom-reward-post-process-path reward_serve_slime.post_process_rewards

Set ``REWARD_SERVE_URL`` or ``REWARD_SERVE_APP`` to the service.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from reward_serve.client import connect
from reward_serve.client.rows import check_first_results, request_of

__all__ = ["post_process_rewards", "score"]

_CENTRED = frozenset({"grpo", "gspo", "cispo", "reinforce_plus_plus_baseline"})
_SCALED = frozenset({"grpo", "gspo", "cispo"})


async def score(args: Any, sample: Any, **_: Any) -> float | list[float]:
    """A sample's score; NaN if undecided, because slime treats None as not yet scored.

    With ``--group-rm``, and for a trajectory of several samples, slime passes a list of samples,
    and the result is a list too.

    Raises:
        RefusedRowError: the service refuses the run's first sample, for example without a label.
    """
    if isinstance(sample, list):
        return await asyncio.gather(*map(_scored, sample))
    return await _scored(sample)


async def _scored(sample: Any) -> float:
    question = sample.prompt if isinstance(sample.prompt, str) else None
    request = request_of(sample.response, sample.label, question)
    client = connect(on_failure="rule")
    result = await client.ascore(request)
    check_first_results(client, [result])
    return math.nan if result.score is None else result.score


def post_process_rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Normalise rewards within groups as slime does, over decided samples only.

    Undecided samples are masked by ``remove_sample``. If rewards are centred, a group's only
    decided sample is masked too.

    Args:
        args: slime's arguments; ``advantage_estimator``, ``rewards_normalization`` and
            ``grpo_std_normalization`` are read.
        samples: samples of a whole step, grouped by ``group_index``.

    Returns:
        Raw rewards, with undecided samples at their group's mean, and rewards to train on.
    """
    rewards = [float(sample.get_reward_value(args)) for sample in samples]
    sizes = Counter(sample.group_index for sample in samples)
    groups: dict[Any, list[float]] = {}
    for sample, reward in zip(samples, rewards, strict=True):
        decided = groups.setdefault(sample.group_index, [])
        if not math.isnan(reward):
            decided.append(reward)
    raw, trained = [], []
    centred = args.rewards_normalization and args.advantage_estimator in _CENTRED
    for sample, reward in zip(samples, rewards, strict=True):
        decided = groups[sample.group_index]
        mean = fmean(decided) if decided else 0.0
        absent = math.isnan(reward)
        raw.append(mean if absent else reward)
        lone = centred and len(decided) == 1 < sizes[sample.group_index]
        if absent or lone:
            sample.remove_sample = True
            trained.append(0.0)
        else:
            trained.append(_normalised(reward, decided, args) if centred else reward)
    return raw, trained


def _normalised(reward: float, decided: Sequence[float], args: Any) -> float:
    centred = reward - fmean(decided)
    if args.advantage_estimator in _SCALED and args.grpo_std_normalization and len(decided) > 1:
        return centred / (stdev(decided) + 1e-6)
    return centred
