"""How long a run an hour has room for: cores without bfloat16 take 1.7 times as long."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from examples.train_judge.drafts import Problem
from examples.train_judge.prompts import Prompt
from examples.train_judge.responses import make
from examples.train_judge.train import Trainer

_TIMED = 4
_LEAST = 1_000


def affordable(trainer: Trainer, problems: Sequence[Problem], minutes: float) -> int:
    """The recipe's examples, or as many thousands of them as the minutes have room for.

    Args:
        trainer: whose pace is measured, on a few batches that teach it nothing.
        problems: what the batches are made of.
        minutes: of training.
    """
    recipe, rng = trainer.recipe, Random(f"{trainer.recipe.seed}/pace")
    taken = []
    for _ in range(1 + _TIMED):
        prompts: list[Prompt] = []
        while len(prompts) < recipe.batch_size:
            prompts += [trainer.prompts.of(example) for example in make(problems, rng)]
        taken.append(trainer.seconds_of(prompts) / len(prompts))
    pace = sum(taken[1:]) / _TIMED  # the first also sets itself up
    fit = int(60 * minutes / pace) // _LEAST * _LEAST
    return min(recipe.examples, max(fit, _LEAST))
