"""TRL's SDPOTrainer with the judge's critiques as its teacher's feedback."""

from __future__ import annotations

import asyncio
from typing import Any

from trl.experimental.sdpo import SDPOTrainer
from trl.experimental.sdpo.sdpo_trainer import SuccessfulRolloutTeacherContextBuilder

from reward_serve_trl import RewardFunction


class CritiqueTrainer(SDPOTrainer):  # type: ignore[misc]  # trl is untyped
    """SDPOTrainer whose teacher reads the critiques of its first ``judge_reward``.

    TRL reads feedback, ``privileged_context``, before it asks for rewards. Here critiques take its
    place afterwards, if ``SDPOConfig`` has ``include_environment_feedback``.

    Raises:
        ValueError: there is no judge, or ``distillation_weight`` is below 1.
    """

    reward_funcs: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        judges = [reward for reward in self.reward_funcs if isinstance(reward, RewardFunction)]
        if not judges or self.args.distillation_weight < 1:  # then TRL counts a failure as 0
            raise ValueError("reward_funcs: needs a judge_reward; distillation_weight: must be 1")
        self.reward_funcs = [_blocking(reward, self._log_metric) for reward in self.reward_funcs]
        self.teacher_context_builder = _WithCritiques(self)
        self.teacher_context_builder.judge = judges[0]

    def _log_metric(self, name: str, value: float) -> None:
        self._metrics["train" if self.model.training else "eval"][name].append(value)


def _blocking(function: Any, log: Any) -> Any:
    """The reward function as SDPOTrainer calls it, which awaits none and shows no trainer."""
    is_ours = isinstance(function, RewardFunction)
    return (lambda **row: asyncio.run(function(**row, log_metric=log))) if is_ours else function


class _WithCritiques(SuccessfulRolloutTeacherContextBuilder):  # type: ignore[misc]
    def build(self, output: Any, prompts: Any, rewards: Any, feedbacks: Any = None) -> Any:
        """The teacher's prompts; the critique of an unsuccessful sample is its feedback."""
        most = self.trainer.args.success_reward_threshold
        rows = zip(self.judge.critiques, rewards, feedbacks, strict=True)
        told = [
            critique if critique and reward < most else other for critique, reward, other in rows
        ]
        return super().build(output, prompts, rewards, feedbacks=told)
