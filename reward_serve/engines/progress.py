"""Notices an engine that has work and makes no progress."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Progress:
    """Tracks when an engine last gave any output.

    Requests that time out leave the engine, so their number says nothing of its health: what
    counts is how long it has had work, finished or not, without giving output.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waiting_since: float | None = None
        self._in_flight = 0

    def submitted(self) -> None:
        """A request was handed to the engine."""
        self._in_flight += 1
        if self._waiting_since is None:
            self._waiting_since = self._clock()

    def advanced(self) -> None:
        """The engine gave some output."""
        self._waiting_since = self._clock()

    def answered(self) -> None:
        """The engine finished a request."""
        self._in_flight -= 1
        self._waiting_since = self._clock() if self._in_flight else None

    def abandoned(self) -> None:
        """A request was given up without an answer."""
        self._in_flight -= 1

    @property
    def stalled_s(self) -> float:
        """Seconds the engine has had work and given no output."""
        return 0.0 if self._waiting_since is None else self._clock() - self._waiting_since
