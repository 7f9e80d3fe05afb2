"""Tables of text pieces, and the cells that several tables use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nicegui.element import Element

from reward_serve_lab.ui import charts
from reward_serve_lab.ui.text import Piece, legible


@dataclass
class Column:
    """A column: its heading and the CSS classes of its cells."""

    label: str
    kind: str = ""


@dataclass
class Cell:
    """A cell.

    Attributes:
        pieces: its text.
        bar: length of its advantage bar, from -1 to 1; None for no bar.
    """

    pieces: Sequence[Piece] = ()
    bar: float | None = None


@dataclass
class TableRow:
    """A row: its cells, its CSS classes and its label for screen readers."""

    cells: Sequence[Cell]
    kind: str = ""
    label: str = ""


class Rows(Element, component="rows.js"):
    """A table; on a narrow screen, a list of cards.

    Args:
        columns: its columns.
        rows: its rows.
        on_open: called with a row's index on a click or Enter.
        caption: what the table shows.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Sequence[TableRow] = (),
        on_open: Callable[[int], object] | None = None,
        caption: str = "",
    ) -> None:
        super().__init__()
        self._props["columns"] = [{"label": c.label, "kind": c.kind} for c in columns]
        self._props["openable"] = on_open is not None
        self._props["caption"] = caption
        if on_open is not None:
            self.on("open", lambda event: on_open(int(event.args)))
        self.show(rows)

    def show(self, rows: Sequence[TableRow]) -> None:
        """Replace the rows."""
        self._props["rows"] = [
            {
                "kind": row.kind,
                "label": row.label,
                "cells": [
                    {"pieces": [list(p) for p in cell.pieces], "bar": cell.bar}
                    for cell in row.cells
                ],
            }
            for row in rows
        ]
        self.update()


def score_cell(score: float | None) -> Cell:
    """A score in its color."""
    text = "none" if score is None else f"{score:g}"
    return Cell([Piece(text, f"score {charts.score_tone(score)}")])


def status_cell(status: str, reason: str | None = None) -> Cell:
    """A result's status in its color, and the reason."""
    pill = Piece(legible(status, 40), f"pill {charts.STATUS_TONES.get(status, '')}")
    return Cell(
        [pill, Piece(legible(reason), "reason", legible(reason, 1000))] if reason else [pill]
    )
