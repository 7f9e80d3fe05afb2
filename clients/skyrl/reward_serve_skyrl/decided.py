"""``DecidedOnly``: a mixin for SkyRL 0.4.0's trainers that leaves undecided samples out.

Rows of undecided samples are removed from the batch between the forward passes and the advantages.
Everything later (estimator, batch normalisation, loss reduction, KL and entropy loss) works as if
they had never been sampled.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import wraps
from statistics import fmean
from typing import Any

import numpy as np
import torch
from skyrl.train.dataset.preprocess import compute_prompt_boundaries

from reward_serve_skyrl.envs import CUT_OFF

logger = logging.getLogger(__name__)

UNDECIDED = "judge_undecided"
_FAILED = "judge_failed_"
_COMPARING = frozenset({"grpo", "rloo", "maxrl"})
"""Estimators that compare a sample with its group."""


class TooManyUndecidedError(RuntimeError):
    """The share of undecided samples in a step exceeds ``max_undecided``."""


class DecidedOnly:
    """Mixin for ``RayPPOTrainer`` and ``FullyAsyncRayPPOTrainer``; put it before them in the bases.

    A sample is undecided if its environment has the metric ``judge_undecided``. A group left with
    fewer than two samples to compare contributes nothing, and a mini-batch without samples takes no
    optimiser step.

    With ``step_wise_trajectories`` all steps of an undecided sample are left out. If each step has
    a reward (``reward`` is not ``end``), it is compared with those of all steps of the group, and a
    step's advantage is the sum of its own and the later ones (process supervision, Shao et al.,
    2024); SkyRL's own trainers train all steps on the last one's reward.

    The metric ``reward/undecided_share`` is the undecided share of a step's samples. Logged rewards
    are those of decided samples; the reward of an undecided sample is NaN.

    Raises:
        TooManyUndecidedError: the share exceeds
            ``environment.skyrl_gym.gsm8k_judge.max_undecided``.
    """

    cfg: Any
    generator: Any
    tracker: Any
    all_metrics: dict[str, Any]
    global_step: int = 0

    def handle_dynamic_sampling(self, generator_output: Any, uids: list[str]) -> Any:
        """As SkyRL's, but only decided rewards count for a group's spread."""
        neutral = _neutral(generator_output, uids)
        return super().handle_dynamic_sampling(neutral, uids)  # type: ignore[misc]

    def _should_keep_group(self, group: Any) -> bool:
        output = group.generator_output
        neutral = _neutral(output, [group.uid] * len(output["rewards"]))
        kept: bool = super()._should_keep_group(  # type: ignore[misc]
            replace(group, generator_output=neutral)
        )
        return kept

    def postprocess_generator_output(
        self,
        generator_output: Any,
        uids: list[str],
        metrics_generator_output: Any = None,
        metrics_uids: list[str] | None = None,
    ) -> Any:
        """As SkyRL's, but metrics cover only decided samples.

        Raises:
            TooManyUndecidedError: see the class.
        """
        seen, seen_uids = metrics_generator_output or generator_output, metrics_uids or uids
        undecided = _undecided(seen)
        self._check_share(seen)
        if not any(undecided):
            return super().postprocess_generator_output(  # type: ignore[misc]
                generator_output, uids, metrics_generator_output, metrics_uids
            )
        decided = [row for row, absent in enumerate(undecided) if not absent]
        columns = [name for name in ("rewards", "is_last_step") if seen.get(name)]
        metrics = {name: [seen[name][row] for row in decided] for name in columns}
        before = set(self.all_metrics)
        output, uids = super().postprocess_generator_output(  # type: ignore[misc]
            _neutral(generator_output, uids),
            uids,
            metrics if decided else None,
            [seen_uids[row] for row in decided] or None,
        )
        if not decided:  # without decided rewards, there is no mean to log
            for name in set(self.all_metrics) - before:
                del self.all_metrics[name]
        for reward, absent in zip(output["rewards"], _undecided(output), strict=True):
            if absent:
                reward[-1] = math.nan
        return output, uids

    def send_keys(self) -> None:
        """Give environments their samples' keys, by which the verdict log can be read."""
        generate, name = self.generator.generate, self.cfg.trainer.run_name

        @wraps(generate)  # the asynchronous trainer reads its signature
        async def with_keys(batch: Any, **options: Any) -> Any:
            run = f"{name}/eval" if batch["batch_metadata"].training_phase == "eval" else name
            rows = zip(batch["env_extras"], batch["trajectory_ids"], strict=True)
            extras = [_with_keys(*row, run=run, step=self.global_step) for row in rows]
            return await generate({**batch, "env_extras": extras}, **options)

        self.generator.generate = with_keys

    def _check_share(self, seen: Any) -> None:
        rows = zip(_metrics(seen), _is_last_step(seen), strict=True)
        samples = [metrics for metrics, is_last in rows if is_last]
        undecided = [metrics for metrics in samples if metrics.get(UNDECIDED)]
        share = len(undecided) / len(samples)
        self.all_metrics["reward/undecided_share"] = share
        if not share:
            return
        why = Counter(
            name.removeprefix(_FAILED)
            for metrics in undecided
            for name, value in metrics.items()
            if name.startswith(_FAILED) and value
        )
        reasons = ", ".join(f"{status} {count}" for status, count in why.most_common())
        what = (
            f"step {self.global_step}: {len(undecided)} of {len(samples)} samples are undecided"
            f" ({reasons})"
        )
        limit = self.cfg.environment.skyrl_gym.gsm8k_judge.max_undecided
        if share > limit:
            raise TooManyUndecidedError(
                f"{what}, more than environment.skyrl_gym.gsm8k_judge.max_undecided={limit}; "
                "check the reward service, or set max_undecided=1 to train on the decided samples"
            )
        logger.warning("%s; they are left out of training", what)

    def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
        """As SkyRL's; if samples are left out, the metadata has the rows to train on."""
        data = super().convert_to_training_input(generator_output, uids)  # type: ignore[misc]
        undecided = _undecided(generator_output)
        if any(undecided):
            comparing = str(self.cfg.trainer.algorithm.advantage_estimator) in _COMPARING
            ends = _is_last_step(generator_output)
            data.metadata["rows_to_train"] = rows_to_train(uids, undecided, comparing, ends)
        return data

    def compute_advantages_and_returns(self, data: Any) -> Any:
        """As SkyRL's, but only of the rows to train on.

        Args:
            data: the step's batch; tensors of shape (samples, tokens).

        Returns:
            The batch without left-out samples and without empty mini-batches.
        """
        rows = data.metadata.pop("rows_to_train", None)
        if rows == []:
            logger.warning("step %d: no samples to train on; no optimiser step", self.global_step)
            data["advantages"] = data["returns"] = torch.zeros_like(data["rewards"])
            for name in _boundaries(data.metadata):
                data.metadata[name] = []
            return data
        taken = data if rows is None else _taken(data, rows)
        ends = taken.metadata.get("is_last_step")
        if ends is None or self.cfg.environment.skyrl_gym.gsm8k_judge.reward == "end":
            return super().compute_advantages_and_returns(taken)  # type: ignore[misc]
        taken.metadata["is_last_step"] = [True] * len(ends)  # compares steps, not samples
        scored = super().compute_advantages_and_returns(taken)  # type: ignore[misc]
        return _with_later_steps(scored, ends)


def rows_to_train(
    uids: Sequence[str], undecided: Sequence[bool], comparing: bool, ends: Sequence[bool]
) -> list[int]:
    """The rows of decided samples.

    Args:
        uids: the group of each row.
        undecided: whether each row is undecided.
        comparing: also leave out a group's only decided sample; GRPO would train on its raw reward.
        ends: whether each row is its sample's last.
    """
    missing = {uid for uid, absent in zip(uids, undecided, strict=True) if absent}
    rows = zip(uids, undecided, ends, strict=True)
    left = Counter(uid for uid, absent, is_last in rows if is_last and not absent)
    lone = {uid for uid in missing if comparing and left[uid] < 2}
    return [row for row, uid in enumerate(uids) if not undecided[row] and uid not in lone]


def _with_keys(extras: Mapping[str, Any], trajectory: Any, **keys: Any) -> dict[str, Any]:
    keys |= {"sample": trajectory.to_string(), **(extras.get("judge_metadata") or {})}
    return {"judge_group": trajectory.instance_id, **extras, "judge_metadata": keys}


def _is_last_step(generator_output: Any) -> list[bool]:
    """Whether each row is its sample's last; but for ``step_wise_trajectories``, all are."""
    ends = generator_output.get("is_last_step")
    return [True] * len(generator_output["response_ids"]) if ends is None else list(ends)


def _undecided(generator_output: Any) -> list[bool]:
    return [bool(metrics.get(UNDECIDED)) for metrics in _metrics(generator_output)]


def _metrics(generator_output: Any) -> list[Mapping[str, Any]]:
    """The metrics of each row's sample, which of several steps the last has.

    If SkyRL cuts off a sample after a step, none has any. So an environment without metrics, whose
    samples all count as cut off, cannot be mixed in.
    """
    none: list[Any] = [{}] * len(generator_output["response_ids"])
    by_row = [metrics or {} for metrics in generator_output.get("env_metrics") or none]
    if generator_output.get("is_last_step") is not None:
        for row, is_last in reversed([*enumerate(generator_output["is_last_step"])]):
            by_row[row] = by_row[row] or CUT_OFF if is_last else by_row[row + 1]
    return by_row


def _neutral(generator_output: Any, uids: Sequence[str]) -> Any:
    """The output, with undecided rewards set to the group's mean so that they add no spread."""
    rewards: list[Any] = list(generator_output["rewards"])
    undecided, ends = _undecided(generator_output), _is_last_step(generator_output)
    decided: dict[str, list[float]] = {}
    for uid, reward, absent, is_last in zip(uids, rewards, undecided, ends, strict=True):
        if is_last and not absent:
            decided.setdefault(uid, []).append(sum(reward) if isinstance(reward, list) else reward)
    for row, absent in enumerate(undecided):
        if absent:
            mean = fmean(decided.get(uids[row], [0.0])) if ends[row] else 0.0
            reward = rewards[row]
            rewards[row] = [0.0] * (len(reward) - 1) + [mean] if isinstance(reward, list) else mean
    return {**generator_output, "rewards": rewards}


def _taken(data: Any, rows: Sequence[int]) -> Any:
    """The given rows of a batch, with mini-batch and prompt boundaries adjusted."""
    index = torch.tensor(rows)
    taken = type(data)({k: None if v is None else v[index] for k, v in data.items()})
    uids = [data.metadata["uids"][row] for row in rows]
    taken.metadata = {**data.metadata, "uids": uids, "pad_size": 0}
    if last_steps := data.metadata.get("is_last_step"):
        taken.metadata["is_last_step"] = [last_steps[row] for row in rows]
    for name, old in _boundaries(data.metadata).items():
        ends = np.searchsorted(rows, np.array(old)).tolist()
        taken.metadata[name] = [(start, end) for start, end in ends if start < end]
    taken.metadata["policy_prompt_boundaries"] = compute_prompt_boundaries(uids)
    return taken


def _with_later_steps(data: Any, ends: Sequence[bool]) -> Any:
    """The batch, in which a step's advantage is the sum of its own and its sample's later ones."""
    mask = data["response_mask"].to(data["advantages"].dtype)
    steps = data["advantages"].sum(-1) / mask.sum(-1).clamp(min=1)  # equal at all tokens
    for row in range(len(ends) - 2, -1, -1):
        steps[row] += 0 if ends[row] else steps[row + 1]
    data["advantages"] = data["returns"] = steps.unsqueeze(-1) * mask
    data.metadata["is_last_step"] = list(ends)
    return data


def _boundaries(metadata: Mapping[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """The (start, end) rows of mini-batches and prompts."""
    return {name: value for name, value in metadata.items() if name.endswith("_boundaries")}
