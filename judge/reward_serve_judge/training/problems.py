"""Reads GSM8K's training problems; never its test set or labelled responses."""

from __future__ import annotations

import typer

from examples.gsm8k.rows import read_rows
from reward_serve_judge.training.drafts import Problem

HELD_OUT_EVERY = 20


def read_problems(data: str) -> tuple[list[Problem], list[Problem]]:
    """The training problems and the held-out problems (every 20th).

    Args:
        data: a JSONL file of ``question`` and ``answer``, or a hub id such as ``openai/gsm8k``.

    Raises:
        typer.BadParameter: the data cannot be read, or a row is invalid.
    """
    problems = []
    for number, row in enumerate(read_rows(data), 1):
        try:
            problems.append(Problem.from_row(row))
        except (KeyError, ValueError, AttributeError) as error:
            raise typer.BadParameter(
                f"{data}: row {number}: {type(error).__name__}: {error}; "
                "a row needs a question, and an answer that ends in '#### <number>'"
            ) from None
    if len(problems) < HELD_OUT_EVERY:
        raise typer.BadParameter(f"{data}: has {len(problems)} rows, needs {HELD_OUT_EVERY}")
    held_out = problems[::HELD_OUT_EVERY]
    return [p for at, p in enumerate(problems) if at % HELD_OUT_EVERY], held_out
