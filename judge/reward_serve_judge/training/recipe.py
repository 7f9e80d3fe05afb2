"""The settings and curriculum of a training run. Does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from reward_serve_judge.training.responses import Example, Material, make, make_bare, make_first


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run.

    Attributes:
        learning_rate: that of LoRA's A; B's is ``ratio`` times that (LoRA+, Hayou et al. 2024).
        met: loss weight of met references; missed ones, of which there are more, have weight 1.
        start: name of the adapter to start from, which has had the first lessons; empty for none.
        new: with ``start``, the share of the trained weights in the average with its weights.
    """

    template: str = "final_answer"
    examples: int = 33_000
    batch_size: int = 32
    learning_rate: float = 3e-4
    ratio: float = 10.0
    warmup: float = 0.01
    first: float = 0.03
    bare: float = 0.12
    extraction: float = 1.0
    met: float = 2.0
    rank: int = 16
    alpha: int = 16
    seed: int = 0
    start: str = ""
    new: float = 0.75

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        return self.examples // self.batch_size

    def lesson(self, step: int, material: Material, rng: Random) -> list[Example]:
        """A step's examples: first comparison, then all forms of an answer, then all families.

        With all families from the start, the judge did not improve in 1,600 examples.
        """
        done = step / self.steps + (self.first + self.bare / 2 if self.start else 0.0)
        if done < self.first:
            return make_first(rng)
        if done < self.first + self.bare:
            return make_bare(material, rng)
        return make(material, rng)
