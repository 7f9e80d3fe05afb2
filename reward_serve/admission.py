"""Admission counted in items: a bounded queue before a bounded number at work.

Serve counts calls, and one call may carry a thousand items.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class OverloadedError(Exception):
    """The queue is full; nothing was done."""


class Admission:
    """A place for each item in the replica.

    Args:
        concurrent: items at work at once.
        queued: items that may wait; beyond them ``place`` refuses at once.
    """

    def __init__(self, concurrent: int, queued: int) -> None:
        self._slots = asyncio.Semaphore(concurrent)
        self._capacity = concurrent + queued
        self.items = 0
        """Items at work or waiting."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a slot, first come first served, and hold it.

        Raises:
            OverloadedError: at once, when as many items as may wait do.
        """
        if self.items >= self._capacity:
            raise OverloadedError(
                f"{self.items} items are in this replica, which takes {self._capacity}; "
                "retry after a pause"
            )
        self.items += 1
        try:
            async with self._slots:
                yield
        finally:
            self.items -= 1
