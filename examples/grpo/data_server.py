"""Serves each step's problems, which depend only on the data, the seed and the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from examples.grpo.problems import HELD_OUT_PROBLEMS, TRAIN_PROBLEMS, make
from examples.grpo.record import say
from examples.grpo.samples import Answer
from examples.gsm8k.prepare_dataset import Variant, splits


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer, or the list of accepted ones."""

    question: str
    answer: Answer


Item = tuple[int, Question]


@dataclass(frozen=True)
class Data:
    """The problems to train on, and those held out from training."""

    train: Sequence[Question]
    held_out: Sequence[Question]


def read_data(data: str, reward: str = "judge") -> Data:
    """The generated problems, or those of a data set; at most 200 are held out.

    Args:
        data: empty for generated problems, the same in every run; otherwise as
            ``prepare_dataset --set``.
        reward: ``judge``, or ``rule``, which needs numbers as answers.

    Raises:
        typer.BadParameter: the data set cannot be read, or a row has no question or no such answer.
    """
    if not data:
        train, held_out = make("train", TRAIN_PROBLEMS, 0), make("held_out", HELD_OUT_PROBLEMS, 0)
        return Data(*([Question(p.question, p.answer) for p in made] for made in (train, held_out)))
    questions = [
        [Question(r["extra_info"]["question"], r["reward_spec"]["ground_truth"]) for r in rows]
        for rows in splits(data, variant=Variant(reward)).values()
    ]
    return Data(questions[0], questions[1][:HELD_OUT_PROBLEMS])


class DataServer:
    """The problems of a run, in an order by its seed."""

    def __init__(self, seed: int, data: Data) -> None:
        self._seed = seed
        self._data = data

    def __repr__(self) -> str:
        return "data-server"

    def batch(self, step: int, count: int) -> list[Item]:
        """The problems of a step; each epoch has every problem once."""
        train, items = self._data.train, []
        for position in range(step * count, (step + 1) * count):
            epoch, place = divmod(position, len(train))
            index = self._order(epoch)[place]
            items.append((index, train[index]))
        say(f"step {step + 1}: problems {[index for index, _ in items]}")
        return items

    def held_out(self) -> list[Item]:
        """The problems held out from training."""
        return list(enumerate(self._data.held_out))

    def _order(self, epoch: int) -> list[int]:
        order = list(range(len(self._data.train)))
        Random(f"{self._seed}/{epoch}").shuffle(order)
        return order
