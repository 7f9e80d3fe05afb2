"""Ends a command at SIGINT or SIGTERM, at whatever line it is.

with until_stopped(console):
    ...
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich.console import Console

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """SIGINT or SIGTERM."""


class _Signals:
    """Has the first SIGINT or SIGTERM raise ``Stopped``, and later ones do nothing.

    An exception that a handler raises is lost where it meets a destructor or a bare ``except``:
    ``check`` raises it again.
    """

    def __init__(self) -> None:
        self._came = False

    def listen(self) -> None:
        """Set the handlers; a shell starts what is in its background with SIGINT ignored."""
        self.check()
        self._set(self._stop)

    def ignore(self) -> None:
        """Let what follows run to its end."""
        self._set(signal.SIG_IGN)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the process's own handlers after the block."""
        handlers = {number: signal.getsignal(number) for number in _NUMBERS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._came = False

    def check(self) -> None:
        """Raise ``Stopped`` if a signal came."""
        if self._came:
            raise Stopped

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        self.ignore()
        raise Stopped

    @staticmethod
    def _set(handler: Any) -> None:
        for number in _NUMBERS:
            signal.signal(number, handler)


signals = _Signals()
"""Of this process."""


@contextmanager
def until_stopped(out: Console) -> Iterator[None]:
    """Run the block; SIGINT or SIGTERM ends it without an error."""
    with signals.restored():
        try:
            signals.listen()
            yield
        except Stopped:
            out.print("ended", highlight=False)
