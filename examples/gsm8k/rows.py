"""Reads questions and answers, from a file or the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

HUB = "openai/gsm8k"
SETS = {"gsm8k": HUB, "math500": "HuggingFaceH4/MATH-500"}
"""Short names of hub ids."""


def read_rows(data: str, split: str = "train") -> list[dict[str, Any]]:
    """The rows of a data set.

    Args:
        data: a JSONL, parquet or CSV file, a hub id such as ``openai/gsm8k``, or its name in
            ``SETS``.
        split: the hub data set's split; one that has only a test split has all its rows there.

    Raises:
        typer.BadParameter: the data set cannot be read.
    """
    return _local(Path(data)) if Path(data).is_file() else _from_hub(SETS.get(data, data), split)


def _local(path: Path) -> list[dict[str, Any]]:
    try:
        if path.suffix in (".parquet", ".csv"):
            import pandas as pd

            read = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
            rows: list[dict[str, Any]] = read(path).to_dict("records")
            return rows
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:  # also pandas' and pyarrow's
        raise typer.BadParameter(f"{path}: cannot be read as its name says: {error}") from None


def _from_hub(name: str, split: str) -> list[dict[str, Any]]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise typer.BadParameter(
            f"{name!r}: no such file; to read it from the hub: pip install datasets"
        ) from None
    try:
        if name == HUB:
            return list(load_dataset(name, "main", split=split))
        dataset = load_dataset(name)
        return list(dataset[split if split in dataset else "test"])
    except Exception as error:  # the hub client raises many types
        raise typer.BadParameter(
            f"{name!r}: no such file, and the hub could not be read: {error}; without "
            "the hub, pass a file of the data set"
        ) from None
