"""What a scenario came to, and whether that is what it must show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

Figures = dict[str, Any]
Bounds = Mapping[str, bool]
"""What must be so, in words, and whether it is."""

NEVER = ("wrong", "silent_zeros", "lost", "hung")
"""Counts that are 0 in every scenario."""


def reported(figures: Figures, bounds: Bounds) -> Figures:
    """The figures, with what they miss."""
    missed = [f"{name}: {figures[name]}" for name in NEVER if figures.get(name)]
    missed += [f"not so: {what}" for what, holds in bounds.items() if not holds]
    return {**figures, "must": list(bounds), "missed": missed}


def broken(error: BaseException) -> Figures:
    """The report of a scenario that could not be run."""
    return {"missed": [f"broke off: {type(error).__name__}: {error}"]}


def table(report: Mapping[str, Figures]) -> Table:
    """A scenario a row."""
    told = Table(
        "scenario", "right of asked", "absent", "wrong, lost, hung", "recovered", "outage", ""
    )
    for name, figures in report.items():
        absent = (f"{why} {count}" for why, count in figures.get("absent", {}).items())
        never = (str(figures.get(key, "?")) for key in ("wrong", "lost", "hung"))
        times = (figures.get(key) for key in ("recovered_s", "outage_s"))
        told.add_row(
            name,
            f"{figures.get('right', '?')} of {figures.get('asked', '?')}",
            ", ".join(absent),
            " ".join(never),
            *("" if seconds is None else f"{seconds:.1f} s" for seconds in times),
            "; ".join(figures["missed"]) or figures.get("note", ""),
        )
    return told
