"""What a run is: its reward, its mode and its hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """A run's settings; two runs with the same ones see the same problems and seeds.

    Attributes:
        reward: ``judge`` asks the service by handle, ``rule`` is SkyRL's own match of ``####``.
        ahead: sample the next batch while this one is judged.
        steps: optimiser steps.
        prompts: of a step.
        group: samples of a prompt.
        train_groups: of a step, those of highest priority; groups without a gradient are left out.
        priority: of a group in the replay buffer: its mean ``advantage``, unsigned, or ``reward``.
        learning_rate: Adam's.
        max_tokens: of a response.
        failing: the part of verdicts that is thrown away, as if the judge had failed.
        failed_as: what a failed verdict is: ``absent``, or a reward of ``zero``.
        evaluate_every: steps between evaluations on held-out problems.
        seed: of problems and of sampling.
    """

    reward: Literal["judge", "rule"] = "judge"
    ahead: bool = False
    steps: int = 60
    prompts: int = 4
    group: int = 6
    train_groups: int = 4
    priority: Literal["advantage", "reward"] = "advantage"
    learning_rate: float = 2e-4
    max_tokens: int = 32
    failing: float = 0.0
    failed_as: Literal["absent", "zero"] = "absent"
    evaluate_every: int = 30
    seed: int = 0

    @property
    def max_staleness(self) -> int:
        """Optimiser steps that may lie between sampling a group and training on it."""
        return int(self.ahead)


RUNS = {
    "rule-sync": Settings(reward="rule"),
    "judge-sync": Settings(),
    "rule-ahead": Settings(reward="rule", ahead=True, steps=15, evaluate_every=15),
    "judge-ahead": Settings(ahead=True, steps=15, evaluate_every=15),
    "failures-as-zero": Settings(steps=40, failing=0.2, failed_as="zero", evaluate_every=40),
    "failures-absent": Settings(steps=40, failing=0.2, evaluate_every=40),
}
"""The runs that ``make grpo-compare`` compares."""
