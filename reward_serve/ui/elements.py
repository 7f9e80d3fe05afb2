"""What the pages are made of: plain HTML elements, text in pieces, tables, messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nicegui import ui
from nicegui.element import Element

from reward_serve.ui.text import Piece, pieces

Tone = Literal["", "ok", "bad", "warn"]


class Pieces(Element, component="pieces.js"):
    """A text in pieces, as text nodes.

    Args:
        shown: from ``text.pieces``.
        tag: the HTML element around them.
    """

    def __init__(self, shown: Iterable[Piece], tag: str = "div") -> None:
        super().__init__()
        self._props["tag"] = tag
        self.show(shown)

    def show(self, shown: Iterable[Piece]) -> None:
        """Show this instead."""
        self._props["pieces"] = [list(piece) for piece in shown]
        self.update()


@dataclass
class Column:
    """A table's column: its heading, and the classes of its cells."""

    label: str
    kind: str = ""


@dataclass
class Cell:
    """A table's cell.

    Attributes:
        pieces: its text.
        kind: its classes.
        bar: where an advantage bar is drawn, from -1 to 1.
    """

    pieces: Sequence[Piece] = ()
    kind: str = ""
    bar: float | None = None


@dataclass
class TableRow:
    """A table's row: its cells, its classes, and what a screen reader says of it."""

    cells: Sequence[Cell]
    kind: str = ""
    label: str = field(default="")


class Rows(Element, component="rows.js"):
    """A table; on a narrow screen a list of cards.

    Args:
        columns: its columns.
        rows: its rows.
        on_open: called with a row's index when it is clicked, or Enter is pressed on it.
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
        """Show these rows instead."""
        self._props["rows"] = [
            {
                "kind": row.kind,
                "label": row.label,
                "cells": [
                    {"pieces": [list(p) for p in cell.pieces], "kind": cell.kind, "bar": cell.bar}
                    for cell in row.cells
                ],
            }
            for row in rows
        ]
        self.update()


def tag(name: str, classes: str = "", text: str | None = None, **attributes: Any) -> Element:
    """A plain HTML element; ``text`` is shown as text, and is this project's own."""
    element = Element(name)
    if classes:
        element.classes(classes)
    if text is not None:
        element._text = text
    for attribute, value in attributes.items():
        element._props[attribute.replace("_", "-")] = value
    return element


def untrusted(text: str, classes: str = "", name: str = "span") -> Pieces:
    """A policy's text, or a service's, with nothing in it obeyed or hidden."""
    shown = Pieces(pieces(text), name)
    shown.classes(classes)
    return shown


def heading(text: str, level: int = 2, classes: str = "") -> Element:
    """A heading."""
    return tag(f"h{level}", classes, text)


def pill(text: str, tone: str = "") -> Element:
    """A short word in a box."""
    return tag("span", f"pill {tone}".strip(), text)


def message(text: str, tone: Tone = "warn", remedy: str = "") -> Element:
    """What went wrong, or is worth knowing, and what to do."""
    box = tag("div", f"message {tone}".strip(), role="status" if tone != "bad" else "alert")
    with box:
        untrusted(text, "what")
        if remedy:
            untrusted(remedy, "remedy")
    return box


def button(text: str, on_click: Callable[[], Any], *, primary: bool = False) -> ui.button:
    """A button of this page's own look."""
    made = ui.button(text, on_click=on_click).props(
        "no-caps unelevated" + (" color=primary" if primary else " flat")
    )
    return made.classes("action primary" if primary else "action")
