"""Limits the items in a replica: a bounded queue before a bounded number in progress.

Serve counts calls, and one call may carry a thousand items. Waiting batches receive slots in turn,
so that a single request never waits for a whole batch. Each turn has several slots, so that the
last items of a small batch are not overtaken by every later batch. An item that cannot be finished
by its deadline is rejected at once, since a queue longer than the deadlines would answer nobody in
time.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.reward_models.base import DeadlinePassedError
from reward_serve.routing.calls import cancelled_by_caller

_MARGIN = 0.75  # usable fraction of a deadline; the rest covers errors of the estimate
_MEMORY_S = 10.0
_ITEMS_TO_TRUST = 16
_USUAL_GROUP = 8

_Queue = OrderedDict[asyncio.Future[None], None]


class Admission:
    """Gives each item of a replica a place in the queue and a slot.

    Args:
        concurrent: maximum items in progress.
        queued: maximum items waiting; ``place`` rejects further items.
        clock: monotonic clock in seconds.
        per_turn: maximum slots for a party before the next party's turn.
    """

    def __init__(
        self,
        concurrent: int,
        queued: int,
        clock: Callable[[], float] = time.monotonic,
        per_turn: int = _USUAL_GROUP,
    ) -> None:
        self.slots = self._free = concurrent
        """Maximum items in progress."""
        self.capacity = concurrent + queued
        """Maximum items in progress or waiting."""
        self._per_turn = per_turn
        self._turns: OrderedDict[object, _Queue] = OrderedDict()
        self._given = 0  # slots given in the first party's turn
        self._waiting = 0
        self._of_a_round = 0  # number of waiting items that one turn of every party admits
        self._pace = Pace(clock)
        self.items = 0
        """Items in progress or waiting."""

    @asynccontextmanager
    async def place(self, within_s: float = math.inf, party: object = None) -> AsyncIterator[None]:
        """Wait for a slot and hold it.

        Args:
            within_s: time left until the item's deadline.
            party: the group that takes turns as one, such as the item's batch.

        Raises:
            OverloadedError: the queue is full, or too long for the item's deadline.
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
        if self.items >= self.capacity:
            raise OverloadedError(
                f"this replica is full with {self.items} items (limit {self.capacity})",
                self._pace.seconds(self._waiting),
            )
        rounds = len(self._turns.get(party, ())) // self._per_turn + 1
        ahead = min(self._waiting, rounds * self._of_a_round)
        wait_s = self._pace.seconds(self.items - self._waiting + ahead + 1)
        if wait_s > _MARGIN * within_s:
            raise OverloadedError(
                f"with {self.items} items in this replica, this one would take {wait_s:.1f} s of "
                f"its {within_s:.1f} s",
                (wait_s - _MARGIN * within_s) / (1 - _MARGIN),  # both decrease while waiting
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
            else:  # it received its slot when it was cancelled
                self._give_back()
            raise

    @property
    def _busy(self) -> float:
        return 1 - self._free / self.slots

    def _give_back(self) -> None:
        self._pace.passed(self._busy)
        while self._turns:
            party, queue = next(iter(self._turns.items()))
            turn = next(iter(queue))
            self._remove(party, turn)
            if turn.cancelled():  # the party keeps its turn
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
        if turn in self._turns.get(party, ()):  # otherwise _give_back has removed it
            self._remove(party, turn)

    def _remove(self, party: object, turn: asyncio.Future[None]) -> None:
        """Remove a waiting item, and its party if it was the last."""
        queue = self._turns[party]
        self._of_a_round -= len(queue) <= self._per_turn
        self._waiting -= 1
        del queue[turn]
        if not queue:
            if party is next(iter(self._turns)):
                self._given = 0
            del self._turns[party]


class Pace:
    """Estimates the throughput with all slots in use, from the last seconds.

    Time is weighted by the fraction of slots in use. Otherwise a replica with few callers would
    look slow, and would reject a burst that it can handle.

    Args:
        clock: monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._seen = 0
        self._items = 0.0
        self._seconds = 0.0

    def passed(self, busy: float) -> None:
        """Record the fraction of slots in use since the last call."""
        now = self._clock()
        passed, self._since = now - self._since, now
        if busy:
            kept = math.exp(-passed / _MEMORY_S)
            self._items *= kept
            self._seconds = kept * self._seconds + busy * passed

    def left(self) -> None:
        """Record that an item is done."""
        self._seen += 1
        self._items += 1

    def seconds(self, items: int) -> float:
        """The estimated time for a number of items; 0 without enough data."""
        if self._seen < _ITEMS_TO_TRUST:
            return 0.0
        return items * self._seconds / self._items


@asynccontextmanager
async def within_deadline(timeout_s: float) -> AsyncIterator[asyncio.Timeout]:
    """Bound a block by a request's deadline.

    Raises:
        DeadlinePassedError: the deadline passed.
        EngineError: the engine cancelled the request.
    """
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            yield deadline
    except TimeoutError:
        if deadline.expired():
            raise DeadlinePassedError(
                f"timeout_s: {timeout_s:g} s passed without an answer"
            ) from None
        raise
    except asyncio.CancelledError:
        if cancelled_by_caller():
            raise
        raise EngineError("the engine cancelled the request") from None
