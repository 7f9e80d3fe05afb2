"""Stops a command at SIGINT or SIGTERM, whatever it is doing.

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
    """SIGINT or SIGTERM was received."""


class _Signals:
    """Raises ``Stopped`` at the first SIGINT or SIGTERM and ignores later ones.

    A handler's exception is lost in a destructor or a bare ``except``; ``check`` raises it again.
    """

    def __init__(self) -> None:
        self.received = False

    def listen(self) -> None:
        """Install the handlers; shells start background jobs with SIGINT ignored."""
        self.check()
        self._set(self._stop)

    def ignore(self) -> None:
        """Ignore further signals, so that clean-up runs to its end."""
        self._set(signal.SIG_IGN)

    def check(self) -> None:
        """Raise ``Stopped`` if a signal was received."""
        if self.received:
            raise Stopped

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        self.ignore()
        raise Stopped

    @staticmethod
    def _set(handler: Any) -> None:
        for number in _NUMBERS:
            signal.signal(number, handler)


signals = _Signals()
"""The process's signal handlers."""


@contextmanager
def until_stopped(out: Console) -> Iterator[None]:
    """Run the block; SIGINT or SIGTERM ends it without an error. Restores the handlers."""
    handlers = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        signals.listen()
        yield
    except Stopped:
        out.print("stopped", highlight=False)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signals.received = False
