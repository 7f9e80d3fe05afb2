"""The settings of a run: reward, mode and hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """A run's settings; runs with equal settings use the same problems and seeds.

    Attributes:
        reward: ``judge`` calls the service by handle, ``rule`` is SkyRL's own match of ``####``.
        ahead: sample the next batch while this one is judged.
        data: questions and answers to train on, as ``prepare_dataset --set``; empty for generated
            problems.
        steps: number of steps.
        prompts: prompts per step.
        group: samples per prompt.
        train_groups: maximum groups to train on per step, by priority.
        priority: a group's priority in the replay buffer: mean absolute ``advantage``, or mean
            ``reward``.
        replay_updates: further optimiser steps in each step, on groups that were trained on before.
        replay_staleness: maximum steps between sampling and replaying a group.
        learning_rate: Adam's learning rate.
        max_tokens: maximum length of a response.
        failing: share of verdicts to discard, as if the judge had failed.
        failed_as: how a discarded verdict counts: ``absent``, or a reward of ``zero``.
        evaluate_every: steps between evaluations on held-out problems; 0 for none.
        seed: seed of problems and sampling.
    """

    reward: Literal["judge", "rule"] = "judge"
    data: str = ""
    ahead: bool = False
    steps: int = 60
    prompts: int = 4
    group: int = 6
    train_groups: int = 4
    priority: Literal["advantage", "reward"] = "advantage"
    replay_updates: int = 0
    replay_staleness: int = 4
    learning_rate: float = 2e-4
    max_tokens: int = 32
    failing: float = 0.0
    failed_as: Literal["absent", "zero"] = "absent"
    evaluate_every: int = 30
    seed: int = 0

    @property
    def max_staleness(self) -> int:
        """Maximum optimiser steps between sampling a group and training on it."""
        return int(self.ahead)


RUNS = {
    "rule-sync": Settings(reward="rule"),
    "judge-sync": Settings(),
    "rule-ahead": Settings(reward="rule", ahead=True, steps=15, evaluate_every=15),
    "judge-ahead": Settings(ahead=True, steps=15, evaluate_every=15),
    "failures-as-zero": Settings(steps=40, failing=0.2, failed_as="zero", evaluate_every=40),
    "failures-absent": Settings(steps=40, failing=0.2, evaluate_every=40),
    "judge-replay": Settings(group=4, replay_updates=1, priority="reward"),
}
"""The runs that ``make grpo ARGS=all`` compares.

``judge-replay`` replays as SkyPilot's example does: each step is followed by an update on earlier
groups, likelier of high reward.
"""
