"""Limits the work that items begin in one turn of the event loop, so that others get theirs."""

from __future__ import annotations

import asyncio
import time
from collections import deque

_TURN_S = 0.01
_TURN_CHARACTERS = 2**12
_SHORT_CHARACTERS = 2**10
_ITEM_CHARACTERS = 2**9  # no item takes less time than one of this size


class Turns:
    """The turns of an event loop, in which items find room or wait, in order of arrival.

    A turn has room for 10 ms of validation, for one long item and for short ones of 4,096
    characters in total.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._began = 0.0
        self._validation = _Room(1)
        self._long = _Room(1)
        self._short = _Room(_TURN_CHARACTERS)

    async def validation(self) -> None:
        """Wait for a turn with time left."""
        self._begin()
        while time.thread_time() - self._began > _TURN_S:
            self._validation.left = 0
            await self._validation.take(0)

    async def work(self, characters: int) -> None:
        """Wait for a turn with room for the rules and the prompt of an item, and take it."""
        self._begin()
        if characters > _SHORT_CHARACTERS:
            await self._long.take(1)
        else:
            await self._short.take(max(characters, _ITEM_CHARACTERS))

    def _begin(self) -> None:
        if not self._is_open:
            self._is_open, self._began = True, time.thread_time()
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._is_open = False
        woken = [room.renew() for room in (self._validation, self._long, self._short)]
        if any(woken):
            self._begin()  # they run in the next turn


class _Room:
    """What a turn has room for; who finds none waits until ``renew`` gives it, and is woken once.

    Attributes:
        left: the room left in this turn; the last to take some may exceed it.
    """

    def __init__(self, size: int) -> None:
        self.left = self._size = size
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, size: int) -> None:
        """Take room, now or in a later turn."""
        if self.left > 0:
            self.left -= size
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting.append((given, size))
        await given

    def renew(self) -> bool:
        """Begin a turn, and give its room to those that wait; whether anyone got some."""
        self.left, woken = self._size, False
        while self._waiting and self.left > 0:
            given, size = self._waiting.popleft()
            if not given.done():  # its item has not been cancelled
                given.set_result(None)
                self.left -= size
                woken = True
        return woken
