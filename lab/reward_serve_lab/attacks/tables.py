"""The report as tables for the terminal."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from reward_serve_answers import final_answer
from reward_serve_lab.evaluation.tables import shown_text

_HEAD, _TAIL = 60, 40


def family_table(report: dict[str, Any]) -> Table:
    """False accepts by family and in total."""
    table = Table(
        *("family", "texts", "rows", "unscored", "false accepts", "rate", "95% upper bound")
    )
    for name, counts in report["families"].items():
        table.add_row(*_cells(name, counts))
    table.add_section()
    table.add_row(*_cells("all", report), style="bold")
    return table


def accepted_table(report: dict[str, Any], most: int) -> Table:
    """The first accepted texts, shortened, with unprintable characters escaped."""
    firsts: dict[str, dict[str, Any]] = {}
    for row in report["accepted"]:
        firsts.setdefault(row["response"], row)
    accepted = list(firsts.values())
    table = Table("family", "reference", "accepted response", "score", "decided by")
    for row in accepted[:most]:
        table.add_row(
            escape(shown_text(row["family"])),
            escape(_shortened(final_answer(row["reference"]))),
            escape(_shortened(row["response"])),
            f"{row['score']:g}",
            str(row["source"]),
        )
    if len(accepted) > most:
        table.caption = f"and {len(accepted) - most} more texts: --out has every row"
    return table


def _cells(name: str, counts: dict[str, Any]) -> tuple[str, ...]:
    numbers = (counts[key] for key in ("texts", "n", "unscored", "false_accepts"))
    rates = (counts[key] for key in ("false_accept_rate", "false_accept_upper95"))
    return (
        escape(shown_text(name)),
        *map(str, numbers),
        *("-" if rate is None else f"{rate:.2%}" for rate in rates),
    )


def _shortened(text: str) -> str:
    if len(text) > _HEAD + _TAIL:
        return f"{shown_text(text[:_HEAD])} ... {shown_text(text[-_TAIL:])}"
    return shown_text(text) or "(empty)"
