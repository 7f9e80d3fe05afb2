"""Counts a client's requests by outcome."""

from __future__ import annotations

import threading

from reward_serve.schema import ScoreResult, Status


class Counters:
    """Counts one client's requests, for a trainer's metrics. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("asked", "ok", "failed", "fallback", "retried"), 0)
        self._counts |= {f"failed_{status.value}": 0 for status in Status if status != Status.OK}

    def asked(self, requests: int) -> None:
        """Record new requests."""
        self._add("asked", requests)

    def ok(self, requests: int) -> None:
        """Record requests that ended with a verdict."""
        self._add("ok", requests)

    def retried(self, requests: int) -> None:
        """Record requests that were sent again."""
        self._add("retried", requests)

    def failed(self, result: ScoreResult, fallback: bool) -> int:
        """Record a request that ended without a verdict.

        Args:
            result: the service's result.
            fallback: whether the caller received a fallback score.

        Returns:
            The number of requests without a verdict so far.
        """
        failed = self._add("failed")
        self._add(f"failed_{result.status.value}")
        if fallback:
            self._add("fallback")
        return failed

    def snapshot(self) -> dict[str, int]:
        """The current counts: asked, ok, failed, failed by status, fallback, retried."""
        with self._lock:
            return dict(self._counts)

    def _add(self, key: str, count: int = 1) -> int:
        with self._lock:
            self._counts[key] += count
            return self._counts[key]
