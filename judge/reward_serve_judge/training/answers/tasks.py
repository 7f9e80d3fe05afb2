"""Answers of reasoning-gym's tasks, with its own ``score_answer`` as the oracle.

The package is not a dependency: ``pip install reasoning-gym==0.1.25``. What it makes is not
committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any, ClassVar

import typer
from typing_extensions import override

from reward_serve_judge.training.answers.base import Answer
from reward_serve_judge.training.answers.words import misspelt, text_in
from reward_serve_judge.training.texts import loaded

_TASKS = loaded("tasks.yaml")
TRAINED: list[str] = [*chain(*_TASKS["trained"].values())]
HELD_OUT: dict[str, list[str]] = _TASKS["held_out"]
"""By kind: never used for training."""

_RIGHT, _WRONG = 0.99, 0.5
_LONGEST = 70  # characters of an answer; the judge sees 96 tokens of a response
_FEWEST, _MISSES = 2, 6
_NEITHER = ("undetermined", "neither")
_PLAIN = re.compile(r"[\s'\"`.]")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?![\w.])")


@dataclass(frozen=True, slots=True)
class Task(Answer):
    """The answer of a task.

    Attributes:
        name: the task.
        text: the answer, as the task writes it.
        equals: other notations that the oracle accepts.
        misses: answers that the oracle rejects.
    """

    kind: ClassVar[str] = "task"
    name: str
    text: str
    equals: tuple[str, ...] = field(default=(), compare=False)
    misses: tuple[str, ...] = field(default=(), compare=False)

    @override
    def written(self, rng: Random, *, tex: bool = False, lang: str = "en") -> str:
        text = rng.choice((self.text, *self.equals))
        return text_in(text, rng, tex) if text.replace(" ", "").isalpha() else text

    @override
    def reference(self, rng: Random) -> str:
        return self.text

    @override
    def miss(self, rng: Random, others: Sequence[Answer]) -> Task:
        text = rng.choice(self.misses)
        return Task(self.name, text, misses=(self.text, *self.misses))


def read_tasks(names: Sequence[str], count: int, seed: int) -> list[Task]:
    """Answers of the tasks; too long ones, and those without near misses, are left out.

    Args:
        names: tasks of reasoning-gym.
        count: answers of each.
        seed: seed of the tasks.

    Raises:
        typer.BadParameter: reasoning-gym is not installed.
    """
    try:
        import reasoning_gym
    except ImportError:
        raise typer.BadParameter(
            "answers of other kinds than numbers need reasoning-gym: "
            "pip install reasoning-gym==0.1.25"
        ) from None
    rng = Random(f"{seed}/tasks")
    tasks: list[Task] = []
    for name in names:
        made = reasoning_gym.create_dataset(name, size=count, seed=seed)
        entries = [made[at] for at in range(count)]
        texts = [str(entry["answer"]) for entry in entries]
        tasks += [
            task
            for entry, text in zip(entries, texts, strict=True)
            if 0 < len(text) <= _LONGEST and (task := _task(name, made, entry, text, texts, rng))
        ]
    return tasks


def _task(
    name: str, made: Any, entry: Any, text: str, texts: Sequence[str], rng: Random
) -> Task | None:
    def score(answer: str) -> float:
        try:
            return float(made.score_answer(answer, entry))
        except Exception:  # an oracle may fail on an answer that it cannot read
            return _WRONG + 0.1

    if score(text) < _RIGHT:
        return None
    others = [*rng.sample(texts, min(len(texts), 4)), *_mutants(text, rng)]
    rng.shuffle(others)
    misses: list[str] = []
    for other in dict.fromkeys(filter(str.strip, others)):
        if len(misses) < _MISSES and _plain(other) != _plain(text) and len(other) <= _LONGEST:
            misses += [other] if score(other) <= _WRONG else []
    if len(misses) < _FEWEST:
        misses += [word for word in _NEITHER if word not in misses and score(word) <= _WRONG]
    equals = [form for form in _notations(text) if form != text and score(form) >= _RIGHT]
    return Task(name, text, tuple(equals), tuple(misses)) if len(misses) >= _FEWEST else None


def _plain(text: str) -> str:
    return _PLAIN.sub("", text).casefold()


def _notations(text: str) -> Iterator[str]:
    yield from (text.lower(), text.upper(), text.capitalize())
    yield from (re.sub(r",\s*", ", ", text), re.sub(r",\s*", ",", text), text.replace("'", '"'))
    yield text.replace("**", "^")
    yield re.sub(r"\s*([-+*/])\s*", r"\1", text)


def _mutants(text: str, rng: Random) -> Iterator[str]:
    """Texts that differ in a number, a letter, an element, or the order of elements."""
    for numeral in rng.sample(numbers := [*_NUMBER.finditer(text)], min(2, len(numbers))):
        changed = str(int(numeral[0]) + rng.choice((-1, 1, 2, 10)))
        yield text[: numeral.start()] + changed + text[numeral.end() :]
    if re.search(r"[A-Za-z]{6}", text) and "," not in text:
        yield misspelt(text, rng)
    separator = next((mark for mark in (", ", ",", " → ", " ") if mark in text), None)
    body = text.strip("[]()")
    parts = body.split(separator) if separator else []
    if len(parts) > 1:
        first, other = sorted(rng.sample(range(len(parts)), 2))
        swapped = list(parts)
        swapped[first], swapped[other] = parts[other], parts[first]
        for new in (swapped, parts[:-1], parts[::-1]):
            yield text.replace(body, (separator or "").join(new))
    if " + " in text or " - " in text:
        yield text.translate(str.maketrans("+-", "-+"))
