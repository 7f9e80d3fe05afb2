from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reward_serve_judge.training.budget import affordable
from reward_serve_judge.training.drafts import Problem
from reward_serve_judge.training.recipe import Recipe
from reward_serve_judge.training.responses import Material
from reward_serve_judge.training.train import Trainer

PROBLEM = Problem.from_row(
    {
        "question": "Nadia packs 7 boxes of 24 pears. How many pears?",
        "answer": "She packs 7 * 24 = <<7*24=168>>168 pears.\n#### 168",
    }
)


class Paced:
    """A trainer that takes so many seconds an example, and more for the first batch."""

    recipe = Recipe(examples=31_000)
    prompts = SimpleNamespace(of=lambda example: example)

    def __init__(self, pace: float) -> None:
        self.pace = pace
        self.setting_up = 60.0

    def seconds_of(self, batch: Sequence[Any]) -> float:
        taken, self.setting_up = self.setting_up + self.pace * len(batch), 0.0
        return taken


@pytest.mark.parametrize(
    ("pace", "examples"), [(0.05, 31_000), (0.1, 31_000), (0.2, 16_000), (90.0, 1_000)]
)
def test_a_run_has_as_many_examples_as_the_time_has_room_for(pace: float, examples: int) -> None:
    trainer = cast("Trainer", Paced(pace))
    assert affordable(trainer, Material([PROBLEM]), minutes=56) == examples
