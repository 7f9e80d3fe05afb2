"""Loads ``texts.yaml`` and ``kinds.yaml``, the text fragments of training responses."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml


def loaded(name: str) -> Any:
    """A file beside this one."""
    return yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))


_NUMBERS, _KINDS = loaded("texts.yaml"), loaded("kinds.yaml")

CLOSINGS: dict[str, list[str]] = _NUMBERS.pop("closings")
"""Sentences that commit to a number, by shape."""
LANGUAGES: dict[str, list[str]] = _NUMBERS.pop("languages")
"""Sentences that commit to a number, by language."""
SHAPES: dict[str, float] = _NUMBERS.pop("shapes")
"""The shapes of closings, with their weights."""
PARTS: dict[Fraction, str] = {Fraction(k): v for k, v in _NUMBERS.pop("parts").items()}
"""Parts of a whole in words."""
SIGNS: dict[Fraction, str] = {Fraction(k): v for k, v in _NUMBERS.pop("signs").items()}
"""Parts that are one character."""
TEXTS: dict[str, list[str]] = _NUMBERS
SAID_FOREIGN: dict[str, list[str]] = _KINDS.pop("said_foreign")
"""Sentences that commit to an answer of any kind, by language."""
GENERAL_SHAPES: dict[str, float] = _KINDS.pop("shapes")
"""``SHAPES``, for answers of any kind."""
UNITS: dict[str, list[list[str]]] = _KINDS.pop("units")
"""The names of each unit, by group."""
KINDS: dict[str, list[str]] = _KINDS
"""Fragments for answers of any kind."""
TEX = frozenset(["box", "tex"])
"""Shapes whose values are LaTeX."""
_ONLY_ANSWER = re.compile(r"(?:[^{}]|\{\{|\}\}|\{s\})+")
GENERAL: dict[str, list[str]] = {
    shape: [
        form
        for form in CLOSINGS[shape]
        if _ONLY_ANSWER.fullmatch(form)
        and not re.search(r"x =|= \{s|^A\.|\d|currency|^[(\[]\{s", form)
    ]
    for shape in ("hash", "label", "box", "bare", "markdown", "code")
} | {"said": KINDS["said"]}
"""Sentences that commit to an answer of any kind, by shape."""
