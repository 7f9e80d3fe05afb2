"""Detects an engine that has requests but makes no progress."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Progress:
    """Tracks how long an engine has had requests without producing output.

    Requests that time out are removed from the engine, so the number of requests in flight does
    not show whether it hangs.

    Args:
        clock: monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waiting_since: float | None = None
        self._in_flight = 0

    def submitted(self) -> None:
        """Record that a request was passed to the engine."""
        self._in_flight += 1
        if self._waiting_since is None:
            self._waiting_since = self._clock()

    def advanced(self) -> None:
        """Record that the engine produced output."""
        self._waiting_since = self._clock()

    def answered(self) -> None:
        """Record that the engine finished a request."""
        self._in_flight -= 1
        self._waiting_since = self._clock() if self._in_flight else None

    def abandoned(self) -> None:
        """Record that a request ended without an answer."""
        self._in_flight -= 1

    @property
    def stalled_s(self) -> float:
        """Seconds for which the engine has had requests without producing output."""
        return 0.0 if self._waiting_since is None else self._clock() - self._waiting_since
