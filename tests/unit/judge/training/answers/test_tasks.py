from __future__ import annotations

import sys
from random import Random
from types import SimpleNamespace

import pytest
import typer

from reward_serve_judge.training.answers.base import near_miss
from reward_serve_judge.training.answers.tasks import HELD_OUT, TRAINED, Task, read_tasks


class FakeTask:
    """A task of reasoning-gym whose oracle ignores case and white space, and fails on "?"."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers

    def __getitem__(self, at: int) -> dict[str, str]:
        return {"answer": self.answers[at % len(self.answers)]}

    def score_answer(self, answer: str, entry: dict[str, str]) -> float:
        if "?" in answer:
            raise ValueError(answer)
        same = answer.lower().replace(" ", "") == entry["answer"].lower().replace(" ", "")
        return 1.0 if same else 0.6 if answer.startswith("almost") else 0.0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    answers = ["[red, blue]", "[green, blue]", "almost", "what?", "x" * 90]
    fake = SimpleNamespace(create_dataset=lambda name, size, seed: FakeTask(answers))
    monkeypatch.setitem(sys.modules, "reasoning_gym", fake)
    return read_tasks(["colours"], 5, seed=0)


def test_only_what_the_oracle_rejects_is_a_miss(made: list[Task]) -> None:
    task = next(task for task in made if task.text == "[red, blue]")
    assert "[blue, red]" in task.misses
    assert not {"almost", "what?", task.text} & set(task.misses)


def test_only_what_the_oracle_accepts_is_a_notation(made: list[Task]) -> None:
    task = next(task for task in made if task.text == "[red, blue]")
    assert {"[red,blue]", "[RED, BLUE]"} <= set(task.equals)


def test_long_answers_are_left_out(made: list[Task]) -> None:
    assert {task.text for task in made} <= {"[red, blue]", "[green, blue]", "almost"}


def test_a_task_has_two_misses_at_least(made: list[Task]) -> None:
    for task in made:
        miss = near_miss(task, Random(0))
        third = near_miss(task, Random(1), but=[miss])
        assert len({task.text, miss.text, third.text}) == 3


def test_without_the_package_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(typer.BadParameter, match="pip install reasoning-gym"):
        read_tasks(["bf"], 1, seed=0)


def test_a_third_of_the_tasks_is_held_out() -> None:
    held_out = {name for names in HELD_OUT.values() for name in names}
    assert not held_out & set(TRAINED)
    assert len(held_out) / (len(held_out) + len(TRAINED)) > 0.33
