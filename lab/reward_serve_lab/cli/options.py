"""What the lab's commands share: options, how files are read, and how they end without answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from reward_serve.cli.console import SafeConsole
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve_lab.evaluation.bulk import Row, read_rows
from reward_serve_lab.evaluation.json_lines import LinesError
from reward_serve_lab.evaluation.tables import shown_text

T = TypeVar("T")

TIMEOUT_S = 300.0

progress = SafeConsole(stderr=True)
console = SafeConsole()


class ModeName(StrEnum):
    """How a judge answers; an enum, since Typer accepts no list of literals."""

    LABEL = "label"
    GENERATE = "generate"


Model = Annotated[str | None, typer.Option(help="Name of the reward model.")]
Template = Annotated[str | None, typer.Option(help="Judging template.")]
Mode = Annotated[ModeName | None, typer.Option(help="Mode of the judge.")]
Sample = Annotated[int | None, typer.Option(min=1, help="Number of random rows; default: all.")]
Seed = Annotated[int, typer.Option(help="Seed of --sample.")]
Out = Annotated[Path | None, typer.Option(help="Write the report to this JSON file.")]
Html = Annotated[Path | None, typer.Option(help="Write a page that opens offline to this file.")]
Count = Annotated[int, typer.Option(min=1)]
Timeout = Annotated[float, typer.Option(min=0.1, help="Deadline of each row, in seconds.")]


def settings_of(
    model: str | None, template: str | None, mode: str | None = None, timeout_s: float = TIMEOUT_S
) -> dict[str, Any]:
    """The fields that every request has."""
    given = {"model": model, "template": template, "options": {"mode": mode} if mode else None}
    return {key: value for key, value in given.items() if value is not None} | {
        "timeout_s": timeout_s
    }


def check_outputs(*paths: Path | None) -> None:
    """Check that files can be written at these paths.

    Raises:
        typer.BadParameter: a path is a folder, or its folder does not exist.
    """
    for path in paths:
        if path and not path.parent.is_dir():
            raise typer.BadParameter(f"{path}: the folder {path.parent} does not exist")
        if path and path.is_dir():
            raise typer.BadParameter(f"{path}: is a folder")


def read_file(path: Path, read: Callable[[Path], T], fault: str = "") -> T:
    """What ``read`` reads; ``fault`` precedes what it says of the lines.

    Raises:
        typer.BadParameter: the file cannot be read, or its lines are invalid.
    """
    try:
        return read(path)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    except LinesError as error:
        raise typer.BadParameter(f"{path}: {fault}{error}") from None


def rows_in(file: Path) -> list[Row]:
    """The file's rows; says which lines are invalid.

    Raises:
        typer.BadParameter: the file cannot be read.
    """
    rows = read_file(file, read_rows)
    for row in rows:
        if row.fault:
            progress.print(f"line {row.line}: {row.fault}", style="yellow", markup=False)
    return rows


def labelled_rows(file: Path, sample: int | None = None, seed: int = 0) -> list[Row]:
    """``rows_in``, or a random ``sample`` of them.

    Raises:
        typer.BadParameter: the file cannot be read, or no row is labelled.
    """
    rows = rows_in(file)
    if sample is not None and sample < len(rows):
        rows = sorted(random.Random(seed).sample(rows, sample), key=lambda row: row.line)
    if not any(row.correct is not None or row.criteria for row in rows):
        raise typer.BadParameter(
            f"{file}: no row is labelled; set 'correct' to true or false in each, or 'criteria' to "
            "the score of each criterion"
        )
    return rows


@contextmanager
def needing_the_service() -> Iterator[None]:
    """Exit 1 with the reason if the service cannot be reached."""
    try:
        yield
    except ServiceUnavailableError as error:
        progress.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None


def print_reasons(out: Console, reasons: Mapping[str, str | None]) -> None:
    """Print the first reason of each failed status."""
    for status, reason in reasons.items():
        line = f"{status}, first reason: {shown_text(str(reason))}"
        out.print(line, style="yellow", markup=False)


def write_json(path: Path, data: Any) -> None:
    """Write a report."""
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
