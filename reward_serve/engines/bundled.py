"""Finds the bundled judge, which is the distribution ``reward-serve-judge``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

CACHE_VARIABLE = "REWARD_SERVE_CACHE"

Step = Callable[[str], None]
"""Called with a description of each step of a preparation as it begins."""


class BundledModelError(RuntimeError):
    """The bundled judge cannot be prepared; the message says how to fix it."""


class Judge(Protocol):
    """What the module of the entry point ``reward_serve.judge`` has.

    Attributes:
        ADAPTER: the shipped adapter, a PEFT folder.
        OCCURRENCES: what ``occurrence`` may return.
    """

    ADAPTER: Path
    OCCURRENCES: Sequence[str]

    @staticmethod
    def prepare_bundled(step: Step = ..., adapter: Path | None = ...) -> Path:
        """Prepare the model if its folder is missing or damaged, and return the folder."""

    @staticmethod
    def prepare_int8(step: Step = ..., adapter: Path | None = ...) -> Path:
        """Prepare the model with its linear layers in 8 bits."""

    @staticmethod
    def bundled_folder(adapter: Path | None = ...) -> Path:
        """The folder of the prepared model; it may not exist yet."""

    @staticmethod
    def adapter_digest(adapter: Path) -> str:
        """A digest of an adapter's files."""

    @staticmethod
    def canonical(text: str) -> str:
        """A text as the judge is shown it: ``numerals: canonical``."""

    @staticmethod
    def occurrence(reference: str, response: str, clause: str | None) -> str:
        """Where the reference occurs in a response: ``occurrence: true``."""

    @staticmethod
    def stated(text: str) -> tuple[int, int] | None:
        """Start and end of what is most likely the answer of a text without a marker."""


@cache
def bundled_judge() -> Judge:
    """The bundled judge.

    Raises:
        BundledModelError: it is not installed.
    """
    found = tuple(entry_points(group="reward_serve.judge"))
    if not found:
        raise BundledModelError(
            "the bundled judge, which also writes numbers for templates with numerals: canonical, "
            "is the distribution reward-serve-judge, which is not installed; install its wheel "
            "(judge in a clone), or serve another model with another template"
        )
    return cast(Judge, found[0].load())


def cache_folder() -> Path:
    """``REWARD_SERVE_CACHE``, or ``reward_serve`` in the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reward_serve"
