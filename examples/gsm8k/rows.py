"""Reads GSM8K's questions and solutions, from a file or the hub."""

from __future__ import annotations

import json
from pathlib import Path

import typer

HUB = "openai/gsm8k"


def read_rows(data: str, split: str = "train") -> list[dict[str, str]]:
    """The rows of a data set.

    Args:
        data: a JSONL file of ``question`` and ``answer``, or a hub id such as ``openai/gsm8k``.
        split: the hub data set's split.

    Raises:
        typer.BadParameter: the data set cannot be read.
    """
    return _local(Path(data)) if Path(data).is_file() else _from_hub(data, split)


def _local(path: Path) -> list[dict[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        raise typer.BadParameter(f"{path}: not a JSONL file: {error}") from None


def _from_hub(name: str, split: str) -> list[dict[str, str]]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise typer.BadParameter(
            f"{name!r}: no such file; to read it from the hub: pip install datasets"
        ) from None
    try:
        return list(load_dataset(name, "main", split=split))
    except Exception as error:  # the hub client raises many types
        raise typer.BadParameter(
            f"{name!r}: no such file, and the hub could not be read: {error}"
        ) from None
