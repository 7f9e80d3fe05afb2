"""Results of scenarios, and the bounds that they must keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

Figures = dict[str, Any]
Bounds = Mapping[str, bool]
"""A bound in words, and whether it holds."""

ALWAYS_ZERO = ("wrong", "silent_zeros", "lost", "hung")
"""Counts that must be 0 in every scenario."""


def with_bounds(figures: Figures, bounds: Bounds) -> Figures:
    """Add the bounds and those that were missed."""
    missed = [f"{name}: {figures[name]}" for name in ALWAYS_ZERO if figures.get(name)]
    missed += [f"bound: {what}" for what, holds in bounds.items() if not holds]
    return {**figures, "must": list(bounds), "missed": missed}


def all_right(figures: Figures) -> Bounds:
    """The bound of most scenarios: nothing is absent."""
    return {"every request has its score": figures["right"] == figures["asked"]}


def recovers(figures: Figures, within_s: float = 180.0) -> Bounds:
    """The bounds of a part that is replaced."""
    recovered_s, healed_s = figures["recovered_s"], figures["healed_s"]
    within = recovered_s is not None and recovered_s < within_s
    return {
        **all_right(figures),
        f"it recovered within {within_s:g} s": within,
        "what failed was replaced": healed_s is not None,
    }


def aborted(error: BaseException) -> Figures:
    """The report of a scenario that raised."""
    return {"missed": [f"aborted: {type(error).__name__}: {error}"]}


def table(report: Mapping[str, Figures]) -> Table:
    """One row per scenario."""
    outcomes = Table(
        "scenario", "right of asked", "absent", "wrong, lost, hung", "recovered", "outage", ""
    )
    for name, figures in report.items():
        absent = (f"{why} {count}" for why, count in figures.get("absent", {}).items())
        never = (str(figures.get(key, "?")) for key in ("wrong", "lost", "hung"))
        times = (figures.get(key) for key in ("recovered_s", "outage_s"))
        outcomes.add_row(
            name,
            f"{figures.get('right', '?')} of {figures.get('asked', '?')}",
            ", ".join(absent),
            " ".join(never),
            *("" if seconds is None else f"{seconds:.1f} s" for seconds in times),
            "; ".join(figures["missed"]) or figures.get("note", ""),
        )
    return outcomes
