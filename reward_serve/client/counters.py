"""What a client was asked and what came of it."""

from __future__ import annotations

import threading

from reward_serve.schema import ScoreResult, Status


class Counters:
    """Counts of one client's requests, for a trainer's metrics. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("asked", "ok", "failed", "fallback", "retried"), 0)
        self._counts |= {f"failed_{status.value}": 0 for status in Status if status != Status.OK}

    def asked(self, requests: int) -> None:
        """Requests came in."""
        self._add("asked", requests)

    def ok(self, requests: int) -> None:
        """Requests got a verdict."""
        self._add("ok", requests)

    def retried(self, requests: int) -> None:
        """Requests were sent again."""
        self._add("retried", requests)

    def failed(self, result: ScoreResult, fallback: bool) -> int:
        """A request got none.

        Args:
            result: of the service.
            fallback: the caller was given another.

        Returns:
            Requests without a verdict so far.
        """
        failed = self._add("failed")
        self._add(f"failed_{result.status.value}")
        if fallback:
            self._add("fallback")
        return failed

    def snapshot(self) -> dict[str, int]:
        """The counts now: asked, ok, failed, failed by status, fallback, retried."""
        with self._lock:
            return dict(self._counts)

    def _add(self, key: str, count: int = 1) -> int:
        with self._lock:
            self._counts[key] += count
            return self._counts[key]
