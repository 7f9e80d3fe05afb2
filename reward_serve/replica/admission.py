"""Admission counted in items: a bounded queue before a bounded number at work.

Serve counts calls, and one call may carry a thousand items. Slots are given to the batches that
wait in turn, so that a single request never waits for a whole batch, and several a turn, so that
the last items of a small one are not passed by all who come after it. What cannot be answered
within its deadline is refused at once: a queue that is kept longer than deadlines are answers
nobody in time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from reward_serve.engines.base import OverloadedError

_MARGIN = 0.75  # of a deadline; the rest is for what the estimate does not see
_MEMORY_S = 10.0
_ITEMS_TO_TRUST = 16
_USUAL_GROUP = 8

_Queue = OrderedDict[asyncio.Future[None], None]


class Admission:
    """A place for each item in the replica.

    Args:
        concurrent: items at work at once.
        queued: items that may wait; beyond them ``place`` refuses at once.
        clock: seconds, monotonic.
        per_turn: most slots that a party gets before another's turn.
    """

    def __init__(
        self,
        concurrent: int,
        queued: int,
        clock: Callable[[], float] = time.monotonic,
        per_turn: int = _USUAL_GROUP,
    ) -> None:
        self._slots = self._free = concurrent
        self._capacity = concurrent + queued
        self._per_turn = per_turn
        self._turns: OrderedDict[object, _Queue] = OrderedDict()
        self._given = 0  # of the first party's turn
        self._waiting = 0
        self._of_a_round = 0  # of those that wait, how many a turn of every party lets in
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
        rounds = len(self._turns.get(party, ())) // self._per_turn + 1
        ahead = min(self._waiting, rounds * self._of_a_round)
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
        queue = self._turns.setdefault(party, OrderedDict())
        queue[turn] = None
        self._waiting += 1
        self._of_a_round += len(queue) <= self._per_turn
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
            turn = next(iter(queue))
            self._remove(party, turn)
            if turn.cancelled():  # it is still the party's turn
                continue
            if queue:
                self._given += 1
                if self._given >= self._per_turn:
                    self._turns.move_to_end(party)
                    self._given = 0
            turn.set_result(None)
            return
        self._free += 1

    def _leave(self, party: object, turn: asyncio.Future[None]) -> None:
        if turn in self._turns.get(party, ()):  # else it was passed over already
            self._remove(party, turn)

    def _remove(self, party: object, turn: asyncio.Future[None]) -> None:
        """Take one who waits out of the queue, and its party with the last of it."""
        queue = self._turns[party]
        self._of_a_round -= len(queue) <= self._per_turn
        self._waiting -= 1
        del queue[turn]
        if not queue:
            if party is next(iter(self._turns)):
                self._given = 0
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
