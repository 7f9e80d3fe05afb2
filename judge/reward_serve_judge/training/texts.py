"""Loads ``texts.yaml`` and ``kinds.yaml``, the text fragments of training responses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml


def _loaded(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))


_NUMBERS, _KINDS = _loaded("texts.yaml"), _loaded("kinds.yaml")

CLOSINGS: dict[str, list[str]] = _NUMBERS.pop("closings")
"""Sentences that commit to a number, by shape."""
LANGUAGES: dict[str, list[str]] = _NUMBERS.pop("languages")
"""Sentences that commit to a number, by language."""
TEXTS: dict[str, list[str]] = _NUMBERS
SAID_FOREIGN: dict[str, list[str]] = _KINDS.pop("said_foreign")
"""Sentences that commit to an answer of any kind, by language."""
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
