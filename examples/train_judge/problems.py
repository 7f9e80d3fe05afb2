"""Reads GSM8K's training problems; never its test set or any labelled responses."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from examples.train_judge.drafts import Problem

HELD_OUT_EVERY = 20


def read_problems(data: str) -> tuple[list[Problem], list[Problem]]:
    """The problems to train on, and every 20th, held out.

    Args:
        data: a JSONL file of ``question`` and ``answer``, or a hub id such as ``openai/gsm8k``.

    Raises:
        typer.BadParameter: it cannot be read, or a row is no GSM8K row.
    """
    rows = _local(Path(data)) if Path(data).is_file() else _from_hub(data)
    problems = []
    for number, row in enumerate(rows, 1):
        try:
            problems.append(Problem.from_row(row))
        except (KeyError, ValueError, AttributeError) as error:
            raise typer.BadParameter(
                f"{data}: row {number}: {type(error).__name__}: {error}; "
                "a row has a question, and an answer that ends in '#### <number>'"
            ) from None
    if len(problems) < HELD_OUT_EVERY:
        raise typer.BadParameter(f"{data}: {len(problems)} rows; at least {HELD_OUT_EVERY} needed")
    held_out = problems[::HELD_OUT_EVERY]
    return [p for at, p in enumerate(problems) if at % HELD_OUT_EVERY], held_out


def _local(path: Path) -> list[dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise typer.BadParameter(f"{path}: is not JSON lines: {error}") from None


def _from_hub(name: str) -> list[dict[str, str]]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise typer.BadParameter(
            f"{name!r} is no file here; to read it from the hub: pip install datasets"
        ) from None
    try:
        return list(load_dataset(name, "main", split="train"))
    except Exception as error:  # whatever the hub's client raises: no network, no such data set
        raise typer.BadParameter(
            f"{name!r} is no file here and was not read from the hub: {error}"
        ) from None
