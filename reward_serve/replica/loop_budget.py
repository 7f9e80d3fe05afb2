"""Limits the work that items begin in one iteration of the event loop, to keep it responsive."""

from __future__ import annotations

import asyncio
import time
from collections import deque

_VALIDATION_S = 0.01
_SHORT_CHARACTERS = 2**12
_LONGEST_SHORT = 2**10
_LEAST_CHARACTERS = 2**9  # no item takes less time than one of this size


class LoopBudget:
    """The work that one iteration of the event loop may begin; further items wait in order.

    An iteration has room for 10 ms of validation, for one long item and for short items of 4,096
    characters in total.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._began = 0.0
        self._validation = _Capacity(1)
        self._long = _Capacity(1)
        self._short = _Capacity(_SHORT_CHARACTERS)

    async def validation(self) -> None:
        """Wait for an iteration with time left."""
        self._begin()
        while time.thread_time() - self._began > _VALIDATION_S:
            self._validation.left = 0
            await self._validation.take(0)

    async def work(self, characters: int) -> None:
        """Wait for capacity for an item's rules and prompt, and use it."""
        self._begin()
        if characters > _LONGEST_SHORT:
            await self._long.take(1)
        else:
            await self._short.take(max(characters, _LEAST_CHARACTERS))

    def _begin(self) -> None:
        if not self._is_open:
            self._is_open, self._began = True, time.thread_time()
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._is_open = False
        woken = [each.renew() for each in (self._validation, self._long, self._short)]
        if any(woken):
            self._begin()  # they run in the next iteration


class _Capacity:
    """Capacity of one event-loop iteration. When it is used up, callers wait until ``renew``.

    Attributes:
        left: capacity left in this iteration; the last caller may exceed it.
    """

    def __init__(self, size: int) -> None:
        self.left = self._size = size
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, size: int) -> None:
        """Use capacity of this iteration or, in order of arrival, of a later one."""
        if self.left > 0:
            self.left -= size
            return
        granted = asyncio.get_running_loop().create_future()
        self._waiting.append((granted, size))
        await granted

    def renew(self) -> bool:
        """Restore the capacity and wake as many callers as it admits; returns whether any woke."""
        self.left, woken = self._size, False
        while self._waiting and self.left > 0:
            granted, size = self._waiting.popleft()
            if not granted.done():  # its item has not been cancelled
                granted.set_result(None)
                self.left -= size
                woken = True
        return woken
