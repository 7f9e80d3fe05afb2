"""The texts that training responses are made of; ``texts.yaml`` holds them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import yaml

_DATA = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8"))

CLOSINGS: dict[str, list[str]] = _DATA.pop("closings")
TEXTS: dict[str, list[str]] = _DATA
SHAPES = tuple(CLOSINGS)
TEX = frozenset(["box", "tex"])
"""Shapes that take LaTeX."""


def closing(text: str, shape: str, rng: Random) -> str:
    """An ending that commits to an answer written as ``text``."""
    return rng.choice(CLOSINGS[shape]).format(s=text)
