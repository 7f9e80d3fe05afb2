"""Finds the bundled judge, which is the distribution ``reward-serve-judge``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast

CACHE_VARIABLE = "REWARD_SERVE_CACHE"

Step = Callable[[str], None]  # called with what each step of a preparation does, as it begins


class BundledModelError(RuntimeError):
    """The bundled judge cannot be prepared; the message says how to fix it."""


class BundledJudge(Protocol):
    """What the module of the entry point ``reward_serve.judge`` has."""

    ADAPTER: Path  # the shipped adapter, a PEFT folder
    OCCURRENCES: Sequence[str]  # what occurrence may return
    adapter_digest: Callable[[Path], str]
    bundled_folder: Callable[..., Path]  # of the prepared model, which may not exist yet
    prepare_bundled: Callable[..., Path]  # if its folder is missing or damaged; returns the folder
    prepare_int8: Callable[..., Path]  # the same, with its linear layers in 8 bits
    canonical: Callable[[str], str]  # a text as the judge is shown it
    occurrence: Callable[[str, str, str | None], str]  # where the reference is in a response
    stated: Callable[[str], tuple[int, int] | None]  # the likeliest answer of a text, a span


@cache
def bundled_judge() -> BundledJudge:
    """The bundled judge; raises ``BundledModelError`` if it is not installed."""
    installed = tuple(entry_points(group="reward_serve.judge"))
    if not installed:
        raise BundledModelError(
            "the bundled judge, which also writes numbers for templates with numerals: canonical, "
            "is the distribution reward-serve-judge, which is not installed; install its wheel "
            "(judge in a clone), or serve another model with another template"
        )
    return cast(BundledJudge, installed[0].load())


def cache_folder() -> Path:
    """``REWARD_SERVE_CACHE``, or ``reward_serve`` in the user's cache folder."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reward_serve"
