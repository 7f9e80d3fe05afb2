"""Fits a run into a time budget; cores without bfloat16 take 1.7 times as long."""

from __future__ import annotations

from random import Random

from reward_serve_judge.training.prompts import Prompt
from reward_serve_judge.training.responses import Material, make
from reward_serve_judge.training.train import Trainer

_TIMED = 4
_LEAST = 1_000


def affordable(trainer: Trainer, material: Material, minutes: float) -> int:
    """The number of examples, in thousands, that fits the minutes; at most the recipe's.

    Args:
        trainer: the trainer; a few batches measure its speed without training it.
        material: what these batches are made of.
        minutes: training time.
    """
    recipe, rng = trainer.recipe, Random(f"{trainer.recipe.seed}/pace")
    taken = []
    for _ in range(1 + _TIMED):
        prompts: list[Prompt] = []
        while len(prompts) < recipe.batch_size:
            prompts += [trainer.prompts.of(example) for example in make(material, rng)]
        taken.append(trainer.seconds_of(prompts) / len(prompts))
    pace = sum(taken[1:]) / _TIMED  # the first batch includes set-up
    fit = int(60 * minutes / pace) // _LEAST * _LEAST
    return min(recipe.examples, max(fit, _LEAST))
