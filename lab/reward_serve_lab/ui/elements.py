"""Building blocks of the pages: HTML elements, untrusted text, messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal, Self

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from reward_serve_lab.ui.text import Piece, pieces

Tone = Literal["", "ok", "bad", "warn"]


class Pieces(Element, component="pieces.js"):
    """Pieces of text, rendered as text nodes.

    Args:
        parts: from ``text.pieces``.
        tag: the HTML element around them.
    """

    def __init__(self, parts: Iterable[Piece], tag: str = "div") -> None:
        super().__init__()
        self._props["tag"] = tag
        self._props["pieces"] = [list(piece) for piece in parts]


# NiceGUI drops a message of 1 MB, may write a character as eight, and rejects lone surrogates.
_IN_PARTS = """text => {
    const parts = (text ?? "").toWellFormed().match(/[^]{1,100000}/gu) ?? [""];
    parts.forEach((part, place) => emit([part, place === 0, place === parts.length - 1]));
}"""


class LongText(ui.textarea):
    """A text area for items of any size: it sends its value in parts."""

    def on(self, type: str, handler: Any = None, *args: Any, **options: Any) -> Self:
        """Subscribe to an event; a changed value arrives in one piece."""
        if type != f"update:{self.VALUE_PROP}":
            return super().on(type, handler, *args, **options)
        parts: list[str] = []

        def join(event: GenericEventArguments) -> None:
            part, first, last = event.args
            parts[:] = [part] if first else [*parts, part]
            if last:
                handler(replace(event, args="".join(parts)))

        return super().on(type, join, js_handler=_IN_PARTS)


def tag(name: str, classes: str = "", text: str | None = None, **attributes: Any) -> Element:
    """A plain HTML element; for text that is not this project's, use ``untrusted``."""
    element = Element(name)
    if classes:
        element.classes(classes)
    if text is not None:
        element._text = text
    for attribute, value in attributes.items():
        element._props[attribute.replace("_", "-")] = value
    return element


def untrusted(text: str, classes: str = "", name: str = "span") -> Pieces:
    """Text of a policy or a service: markup stays text, hidden characters are named."""
    element = Pieces(pieces(text), name)
    element.classes(classes)
    return element


def heading(text: str, level: int = 2, classes: str = "") -> Element:
    """A heading."""
    return tag(f"h{level}", classes, text)


def pill(text: str, tone: str = "") -> Element:
    """A short label in a box."""
    return tag("span", f"pill {tone}".strip(), text)


def message(text: str, tone: Tone = "warn", remedy: str = "") -> Element:
    """A fault or a note, and its remedy."""
    box = tag("div", f"message {tone}".strip(), role="status" if tone != "bad" else "alert")
    with box:
        untrusted(text, "what")
        if remedy:
            untrusted(remedy, "remedy")
    return box


def upload_button(
    text: str,
    accept: str,
    max_bytes: int,
    on_text: Callable[[str], Any],
    on_large: Callable[[], Any],
) -> None:
    """A button that reads a file of these suffixes, or calls ``on_large`` if it is too large."""

    async def read(event: Any) -> None:
        made = on_text((await event.file.read()).decode("utf-8-sig", "replace"))
        if made is not None:
            await made

    uploader = ui.upload(
        on_upload=read, on_rejected=on_large, max_file_size=max_bytes, auto_upload=True
    )
    uploader.props(f"accept={accept}").classes("unshown")
    button(text, lambda: uploader.run_method("pickFiles"))


def button(text: str, on_click: Callable[[], Any], *, primary: bool = False) -> ui.button:
    """A button in the workbench's style."""
    # Quasar's own colors are important: white text, which the dark theme's accent makes illegible.
    made = ui.button(text, on_click=on_click, color=None if primary else "primary")
    made.props("no-caps unelevated" if primary else "no-caps unelevated flat")
    return made.classes("action primary" if primary else "action")
