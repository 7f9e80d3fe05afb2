"""Returns freed memory after large requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reward_serve import memory
from reward_serve.replica.observing.base import Times
from reward_serve.routing.sizes import size_of


class MemoryTrimmer:
    """Calls ``memory.trim`` at the first flush after ``memory.LARGE_BYTES`` of requests."""

    def __init__(self) -> None:
        self._bytes = 0

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Add the request's size."""
        self._bytes += size_of(request)

    def cancelled(self, request: object, times: Times) -> None:
        """A cancelled request is not counted."""

    def flush(self) -> None:
        """Trim if enough requests were seen since the last time."""
        if self._bytes > memory.LARGE_BYTES:
            self._bytes = 0
            memory.trim()
