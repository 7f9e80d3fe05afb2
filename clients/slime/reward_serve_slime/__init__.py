"""Reward functions for slime, scored by a ``reward_serve`` service; undecided samples are masked.

    --custom-rm-path reward_serve_slime.score
    --custom-reward-post-process-path reward_serve_slime.post_process_rewards
    --custom-eval-rollout-log-function-path reward_serve_slime.fill_evaluation

On-policy distillation from a teacher of the service, with ``--use-opd --opd-type sglang``:

    --custom-rm-path reward_serve_slime.ask_teacher
    --custom-reward-post-process-path reward_serve_slime.post_process_logprobs

Set ``REWARD_SERVE_URL`` or ``REWARD_SERVE_APP`` to the service.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, stdev
from typing import Any

from reward_serve.client import connect
from reward_serve.client.rows import check_first_results, request_of

__all__ = [
    "ask_teacher",
    "fill_evaluation",
    "post_process_logprobs",
    "post_process_rewards",
    "score",
]

_CENTRED = frozenset({"grpo", "gspo", "cispo", "reinforce_plus_plus_baseline"})
_SCALED = frozenset({"grpo", "gspo", "cispo"})


async def score(args: Any, sample: Any, **_: Any) -> float | list[float]:
    """A sample's score; NaN if undecided, because slime treats None as not yet scored.

    Text that ``loss_mask`` marks as a tool's is not scored. With ``--group-rm``, and for a
    trajectory of several samples, slime passes a list of samples, and the result is a list too.

    Raises:
        RefusedRowError: the service refuses all samples, as for a wrong key or without labels.
        ValueError: a setting makes ``loss_mask`` mark other text too.
    """
    if isinstance(sample, list):
        return await asyncio.gather(*(_scored(args, member) for member in sample))
    return await _scored(args, sample)


async def _scored(args: Any, sample: Any) -> float:
    question = sample.prompt if isinstance(sample.prompt, str) else None
    request = request_of(_written(args, sample), sample.label, question)
    client = connect(on_failure=None)
    result = await client.ascore(request)
    check_first_results(client, [result])
    return math.nan if result.score is None else result.score


def _written(args: Any, sample: Any) -> str:
    """What the policy wrote of the response."""
    mask = getattr(sample, "loss_mask", None) or []
    if all(mask):
        return str(sample.response)
    if getattr(args, "mask_offpolicy_in_partial_rollout", False):  # masks the policy's text
        if not (args.custom_generate_function_path or sample.generate_function_path):
            return str(sample.response)
        raise ValueError(
            "--mask-offpolicy-in-partial-rollout: masks the policy's text as it does tools', which "
            "loss_mask does not distinguish; omit it, or score in the generate function"
        )
    from slime.rollout.sglang_rollout import GenerateState

    decode = GenerateState(args).tokenizer.decode
    tokens = zip(mask, sample.tokens[-len(mask) :], strict=True)
    runs = [(ours, [token for _, token in run]) for ours, run in groupby(tokens, lambda t: t[0])]
    return "\n".join(decode(run) for ours, run in runs if ours)


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
    rewards = [
        math.nan if sample.reward is None else _number(sample.get_reward_value(args))
        for sample in samples
    ]
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


def fill_evaluation(rollout_id: int, args: Any, data: dict[str, Any], metrics: Any = None) -> bool:
    """Let undecided samples change no evaluation's mean, which one NaN makes NaN.

    Their rewards become the mean of the data set's decided ones. Their share is logged as
    ``eval/NAME_undecided``; slime's pass rates still count them.

    Args:
        rollout_id: not used.
        args: not used.
        data: data sets' names to their ``rewards``; changed in place.
        metrics: not used.

    Returns:
        False: slime then logs ``data`` itself.
    """
    for name, evaluation in list(data.items()):
        rewards = list(map(_number, evaluation["rewards"]))
        decided = [reward for reward in rewards if not math.isnan(reward)]
        mean = fmean(decided) if decided else math.nan
        evaluation["rewards"] = [mean if math.isnan(reward) else reward for reward in rewards]
        data[f"{name}_undecided"] = {"rewards": list(map(math.isnan, rewards))}
    return False


def _number(reward: float | None) -> float:
    return math.nan if reward is None else float(reward)


async def ask_teacher(args: Any, sample: Any, **_: Any) -> Any:
    """The teacher's log-probability of each token of a sample's response.

    Where slime's own function asks once and a failure ends the run, a failed call is repeated until
    the deadline.

    Args:
        args: not used.
        sample: a sample, or a list of them; ``tokens``, ``response_length`` and ``group_index``
            are read.

    Returns:
        ``{"logprobs": [...]}``, with None if there are none, or a list of these.

    Raises:
        RefusedRowError: the service refuses all samples, as for a wrong key or without a teacher.
    """
    if isinstance(sample, list):
        return await asyncio.gather(*(ask_teacher(args, member) for member in sample))
    if not sample.response_length:
        return {"logprobs": []}
    client = connect(on_failure=None)
    request = {
        "token_ids": sample.tokens,
        "start": len(sample.tokens) - sample.response_length,
        "group": None if sample.group_index is None else str(sample.group_index),
    }
    results = await client.alogprobs([request])
    check_first_results(client, results)
    values = results[0].logprobs
    return {"logprobs": None if values is None else values.tolist()}


def post_process_logprobs(
    args: Any, samples: Sequence[Any], **_: Any
) -> tuple[list[float], list[float]]:
    """Set ``teacher_log_probs``, and mask samples without them by ``remove_sample``.

    Returns:
        Rewards of 0.0, raw and to train on: slime adds the penalty of ``--opd-kl-coef`` itself.
    """
    import torch

    for sample in samples:
        values = sample.get_reward_value(args)["logprobs"]
        if values is None:
            sample.remove_sample = True
            values = [0.0] * sample.response_length
        sample.teacher_log_probs = torch.tensor(values, dtype=torch.float32)
    return [0.0] * len(samples), [0.0] * len(samples)
