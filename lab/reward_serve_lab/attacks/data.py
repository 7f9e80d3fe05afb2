"""Read a user's own attacks: JSON lines with ``family``, ``response`` and ``reference``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reward_serve.schema import ScoreRequest, describe_errors
from reward_serve_lab.attacks.family import Attack

_MAX_FAULTS = 10
_FIELDS = ("family", "response", "reference")


class AttackFileError(ValueError):
    """Lines of the file are invalid; the message lists each with its fault."""


def read_attacks(path: Path) -> list[Attack]:
    """Read the file's attacks; ``question`` is optional, other fields and blank lines are ignored.

    Raises:
        OSError: the file cannot be read.
        AttackFileError: a line is invalid, or the file has no attacks.
    """
    attacks, faults = [], []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            attacks.append(_attack(line))
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = [f"and {len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
        raise AttackFileError("\n".join([*faults[:_MAX_FAULTS], *more]))
    if not attacks:
        raise AttackFileError("has no attacks")
    return attacks


def _attack(line: bytes) -> Attack:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"must be an object (found {type(data).__name__})")
    fields: dict[str, Any] = {key: data[key] for key in (*_FIELDS, "question") if key in data}
    for name in _FIELDS:
        if name not in fields:
            raise ValueError(f"{name}: is missing")
        if not isinstance(fields[name], str):
            raise ValueError(f"{name}: must be a string (found {type(fields[name]).__name__})")
    if not fields["family"].strip():
        raise ValueError("family: is blank")
    try:
        ScoreRequest(**{key: value for key, value in fields.items() if key != "family"})
    except ValidationError as error:
        raise ValueError(describe_errors(error)) from None
    return Attack(**{key: value for key, value in fields.items() if value is not None})
