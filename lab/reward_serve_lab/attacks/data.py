"""Read a user's own attacks: JSON lines with ``family``, ``response`` and ``reference``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel

from reward_serve.schema import Text
from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.evaluation.json_lines import LinesError, all_valid, json_lines


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must be a non-blank string")
    return text


class _Line(BaseModel):
    family: Annotated[Text, AfterValidator(_not_blank)]
    response: Text
    reference: Annotated[Text, AfterValidator(_not_blank)]
    question: Text | None = None


def read_attacks(path: Path) -> list[Attack]:
    """Read the file's attacks; ``question`` is optional, other fields and blank lines are ignored.

    Raises:
        OSError: the file cannot be read.
        LinesError: a line is invalid, or the file has no attacks.
    """
    lines = all_valid(json_lines(path, _Line))
    if not lines:
        raise LinesError("has no attacks")
    return [Attack(**line.model_dump(exclude_none=True)) for line in lines]
