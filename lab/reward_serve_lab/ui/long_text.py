"""A text field for items of any size that the service takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from nicegui import ui
from nicegui.events import GenericEventArguments

PART_CHARACTERS = 100_000
"""Of one message: NiceGUI's page drops a message of 1 MB, and encoding it as JSON twice makes up to
8 characters of one."""

# NiceGUI's server refuses a message with half a surrogate pair.
_IN_PARTS = (
    f"value => {{ const size = {PART_CHARACTERS};"
    r"""
        const text = (value ?? "").toWellFormed();
        let start = 0;
        do {
            let end = start + size;
            if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
            emit([text.slice(start, end), start === 0, end >= text.length]);
            start = end;
        } while (start < text.length);
    }"""
)


class LongText(ui.textarea):
    """A text area whose value travels in parts.

    A lone surrogate becomes U+FFFD.
    """

    def on(self, type: str, handler: Any = None, *args: Any, **options: Any) -> Self:
        """Subscribe to an event; what the user typed is put together first."""
        if type == f"update:{self.VALUE_PROP}":
            return super().on(type, _Joined(handler), js_handler=_IN_PARTS)
        return super().on(type, handler, *args, **options)


class _Joined:
    """Passes a value on when its last part has come."""

    def __init__(self, handler: Callable[[GenericEventArguments], object]) -> None:
        self._handler = handler
        self._parts: list[str] = []

    def __call__(self, event: GenericEventArguments) -> None:
        part, first, last = event.args
        if first:
            self._parts.clear()
        self._parts.append(part)
        if last:
            text = "".join(self._parts)
            self._parts.clear()
            whole = GenericEventArguments(sender=event.sender, client=event.client, args=text)
            self._handler(whole)
