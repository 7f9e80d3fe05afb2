"""Serves each step's problems, which depend only on the seed and the step."""

from __future__ import annotations

from random import Random

from examples.grpo.problems import HELD_OUT_PROBLEMS, TRAIN_PROBLEMS, Problem, make

Item = tuple[int, Problem]


class DataServer:
    """The problems of a run.

    Args:
        seed: seed of their order; the problems themselves are the same in every run (seed 0).
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._train = make("train", TRAIN_PROBLEMS, 0)
        self._held_out = make("held_out", HELD_OUT_PROBLEMS, 0)

    def batch(self, step: int, count: int) -> list[Item]:
        """The problems of a step; each epoch has every problem once."""
        items = []
        for position in range(step * count, (step + 1) * count):
            epoch, place = divmod(position, len(self._train))
            index = self._order(epoch)[place]
            items.append((index, self._train[index]))
        return items

    def held_out(self) -> list[Item]:
        """The problems held out from training."""
        return list(enumerate(self._held_out))

    def _order(self, epoch: int) -> list[int]:
        order = list(range(len(self._train)))
        Random(f"{self._seed}/{epoch}").shuffle(order)
        return order
