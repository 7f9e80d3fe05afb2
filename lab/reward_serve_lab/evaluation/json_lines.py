"""Read files of JSON lines: each line is a model, or the reason why it is not one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from reward_serve.schema import describe_errors

Model = TypeVar("Model", bound=BaseModel)

_MAX_FAULTS = 10


class LinesError(ValueError):
    """Lines are invalid; the message lists the first ten, each with its field and value."""


def json_lines(path: Path, model: type[Model]) -> list[tuple[int, Model | str]]:
    """``parse_lines`` of a file.

    Raises:
        OSError: the file cannot be read.
    """
    return parse_lines(path.read_bytes(), model)


def parse_lines(content: bytes, model: type[Model]) -> list[tuple[int, Model | str]]:
    """The number of each line that is not blank, from 1, and its model or why it is not one."""
    lines = content.split(b"\n")  # not splitlines: a JSON string may contain U+2028
    return [(number, _parsed(line, model)) for number, line in enumerate(lines, 1) if line.strip()]


def all_valid(lines: Iterable[tuple[int, Model | str]]) -> list[Model]:
    """The models of lines that must all be valid.

    Raises:
        LinesError: some are invalid.
    """
    models, faults = [], []
    for number, line in lines:
        if isinstance(line, str):
            faults.append(f"line {number}: {line}")
        else:
            models.append(line)
    if len(faults) > _MAX_FAULTS:
        faults[_MAX_FAULTS:] = [f"and {len(faults) - _MAX_FAULTS} more"]
    if faults:
        raise LinesError("\n".join(faults))
    return models


def _parsed(line: bytes, model: type[Model]) -> Model | str:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {error}; write one object per line"
    if not isinstance(data, dict):
        return f"must be an object (found {type(data).__name__})"
    try:
        return model.model_validate(data)
    except ValidationError as error:
        return describe_errors(error, model)
