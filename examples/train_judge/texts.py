"""Loads ``texts.yaml``, the text fragments of training responses."""

from __future__ import annotations

from pathlib import Path

import yaml

_DATA = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8"))

CLOSINGS: dict[str, list[str]] = _DATA.pop("closings")
"""Sentences that commit to an answer, by shape."""
LANGUAGES: dict[str, list[str]] = _DATA.pop("languages")
"""Sentences that commit to an answer, by language."""
TEXTS: dict[str, list[str]] = _DATA
TEX = frozenset(["box", "tex"])
"""Shapes whose values are LaTeX."""
