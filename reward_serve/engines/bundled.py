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
        adapter_digest: a digest of an adapter's files.
        bundled_folder: the folder of the prepared model, which may not exist yet.
        prepare_bundled: prepares the model if its folder is missing or damaged; returns the folder.
        prepare_int8: the same, with its linear layers in 8 bits.
        canonical: a text as the judge is shown it, for ``numerals: canonical``.
        occurrence: where the reference occurs in a response, for ``occurrence: true``.
        stated: start and end of what is most likely the answer of a text without a marker.
    """

    ADAPTER: Path
    OCCURRENCES: Sequence[str]
    adapter_digest: Callable[[Path], str]
    bundled_folder: Callable[..., Path]
    prepare_bundled: Callable[..., Path]
    prepare_int8: Callable[..., Path]
    canonical: Callable[[str], str]
    occurrence: Callable[[str, str, str | None], str]
    stated: Callable[[str], tuple[int, int] | None]


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
