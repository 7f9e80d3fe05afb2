"""Read files of JSON lines: each line is a model, or the reason why it is not one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from reward_serve.schema import describe_errors

Model = TypeVar("Model", bound=BaseModel)

_MAX_FAULTS = 10


class LinesError(ValueError):
    """Lines are invalid; the message lists the first ten, each with its field and value."""


def json_lines(path: Path, model: type[Model]) -> list[tuple[int, Model | str]]:
    """Read a file; blank lines are skipped.

    Returns:
        The number of each line, from 1, and its model or the reason why it is invalid.

    Raises:
        OSError: the file cannot be read.
    """
    lines = path.read_bytes().split(b"\n")  # not splitlines: a JSON string may contain U+2028
    return [
        (number, parse_line(line, model)) for number, line in enumerate(lines, 1) if line.strip()
    ]


def parse_line(line: bytes | str, model: type[Model]) -> Model | str:
    """The model of a JSON object, or the reason why it is invalid."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {error}; write one object per line"
    return parse_object(data, model)


def parse_object(data: Any, model: type[Model]) -> Model | str:
    """Like ``parse_line``, for JSON that is already parsed."""
    if not isinstance(data, dict):
        return f"must be an object (found {type(data).__name__})"
    try:
        return model.model_validate(data)
    except ValidationError as error:
        return describe_errors(error)


def all_valid(lines: Iterable[tuple[int, Model | str]], name: str = "line") -> list[Model]:
    """The models of lines that must all be valid.

    Args:
        lines: as ``json_lines`` returns them.
        name: what the error calls a line.

    Raises:
        LinesError: some are invalid.
    """
    models, faults = [], []
    for number, line in lines:
        if isinstance(line, str):
            faults.append(f"{name} {number}: {line}")
        else:
            models.append(line)
    if len(faults) > _MAX_FAULTS:
        faults[_MAX_FAULTS:] = [f"and {len(faults) - _MAX_FAULTS} more"]
    if faults:
        raise LinesError("\n".join(faults))
    return models
