"""Admission counted in items: a bounded queue before a bounded number at work.

Serve counts calls, and one call may carry a thousand items. Slots are given to the batches that
wait in turn, an item each, so that a single request never waits for a whole batch. What cannot be
answered within its deadline is refused at once: a queue that is kept longer than deadlines are
answers nobody in time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_MARGIN = 0.75  # of a deadline; the rest is for what the estimate does not see
_MEMORY_S = 10.0
_ITEMS_TO_TRUST = 16
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0

_Queue = OrderedDict[asyncio.Future[None], None]


class OverloadedError(Exception):
    """There is no room, or none in time; nothing was done.

    Attributes:
        retry_after_s: when the queue will be short enough, should nobody join it.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        self.retry_after_s = min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, retry_after_s))
        super().__init__(f"{message}; retry after {self.retry_after_s:.0f} s")


class Admission:
    """A place for each item in the replica.

    Args:
        concurrent: items at work at once.
        queued: items that may wait; beyond them ``place`` refuses at once.
        clock: seconds, monotonic.
    """

    def __init__(
        self, concurrent: int, queued: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slots = self._free = concurrent
        self._capacity = concurrent + queued
        self._turns: OrderedDict[object, _Queue] = OrderedDict()
        self._waiting = 0
        self._pace = Pace(clock)
        self.items = 0
        """Items at work or waiting."""

    @asynccontextmanager
    async def place(self, within_s: float = math.inf, party: object = None) -> AsyncIterator[None]:
        """Wait for a slot and hold it.

        Args:
            within_s: what is left of the item's deadline.
            party: whom the item comes with, such as its batch; slots go to parties in turn.

        Raises:
            OverloadedError: at once, when as many items as may wait do, or too many for the item
                to be answered in time.
        """
        party = object() if party is None else party
        self._check(within_s, party)
        self.items += 1
        try:
            await self._slot(party)
            try:
                yield
            finally:
                self._give_back()
                self._pace.left()
        finally:
            self.items -= 1

    def _check(self, within_s: float, party: object) -> None:
        if self.items >= self._capacity:
            raise OverloadedError(
                f"{self.items} items are in this replica, which takes {self._capacity}",
                self._pace.seconds(self._waiting),
            )
        # Of each other party as many go first as of this item's own.
        turns = len(self._turns.get(party, ())) + 1
        ahead = min(self._waiting, turns * len(self._turns))
        wait_s = self._pace.seconds(self.items - self._waiting + ahead + 1)
        if wait_s > _MARGIN * within_s:
            raise OverloadedError(
                f"{self.items} items are in this replica, so that this one would take "
                f"{wait_s:.1f} s of its {within_s:.1f}",
                (wait_s - _MARGIN * within_s) / (1 - _MARGIN),  # both shrink meanwhile
            )

    async def _slot(self, party: object) -> None:
        if self._free:
            self._pace.passed(self._busy)
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.setdefault(party, OrderedDict())[turn] = None
        self._waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(party, turn)
            else:  # its slot came as it left
                self._give_back()
            raise

    @property
    def _busy(self) -> float:
        return 1 - self._free / self._slots

    def _give_back(self) -> None:
        self._pace.passed(self._busy)
        while self._turns:
            party, queue = next(iter(self._turns.items()))
            turn, _ = queue.popitem(last=False)
            self._waiting -= 1
            if not queue:
                del self._turns[party]
            if not turn.cancelled():  # else it is still the party's turn
                if queue:
                    self._turns.move_to_end(party)
                turn.set_result(None)
                return
        self._free += 1

    def _leave(self, party: object, turn: asyncio.Future[None]) -> None:
        queue = self._turns.get(party)
        if queue is None or turn not in queue:  # passed over already
            return
        del queue[turn]
        self._waiting -= 1
        if not queue:
            del self._turns[party]


class Pace:
    """How fast items would leave if every slot were taken, by the last seconds of work.

    Time counts by the share of the slots that were at work in it. Else a few items at a time would
    make a replica look as slow as its callers are, and a burst would be refused that it can answer.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._seen = 0
        self._items = 0.0
        self._seconds = 0.0

    def passed(self, busy: float) -> None:
        """Since the last call so large a share of the slots was at work."""
        now = self._clock()
        passed, self._since = now - self._since, now
        if busy:
            kept = math.exp(-passed / _MEMORY_S)
            self._items *= kept
            self._seconds = kept * self._seconds + busy * passed

    def left(self) -> None:
        """An item is done."""
        self._seen += 1
        self._items += 1

    def seconds(self, items: int) -> float:
        """How long so many items take; 0 where too little was seen to tell."""
        if self._seen < _ITEMS_TO_TRUST:
            return 0.0
        return items * self._seconds / self._items
