"""A text field for items of any size that the service accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from nicegui import ui
from nicegui.events import GenericEventArguments

PART_CHARACTERS = 100_000
"""Maximum size of one message: NiceGUI drops messages of 1 MB, and can turn a character into 8 by
encoding it twice as JSON."""

# NiceGUI's server rejects a message with half a surrogate pair.
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
    """A text area that sends its value in parts.

    Lone surrogates are replaced by U+FFFD.
    """

    def on(self, type: str, handler: Any = None, *args: Any, **options: Any) -> Self:
        """Subscribe to an event; a changed value arrives in one piece."""
        if type == f"update:{self.VALUE_PROP}":
            return super().on(type, _Joined(handler), js_handler=_IN_PARTS)
        return super().on(type, handler, *args, **options)


class _Joined:
    """Passes a value on when its last part has arrived."""

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
