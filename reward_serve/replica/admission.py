"""Limits the items in a replica: a bounded queue before a bounded number in progress.

Serve counts calls, and one call may carry a thousand items. Slots go to the API keys in turn, so
that one run cannot starve another, and within a key to the waiting batches in rounds, so that a
single request never waits for a whole batch. A batch gets several slots a round, so that later
batches do not overtake the last items of a small one. An item that cannot finish by its deadline is
rejected at once; otherwise a queue longer than the deadlines would answer nobody in time. An item
that waits for a lane of a few processes holds no slot.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reward_serve.child_process import LANES
from reward_serve.engines.base import TURN, EngineError, OverloadedError
from reward_serve.reward_models.base import DeadlinePassedError
from reward_serve.routing.dispatch import cancelled_by_caller

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

    from reward_serve.engines.openai import Window

_MARGIN = 0.75  # usable fraction of a deadline; the rest covers errors of the estimate
_MEMORY_S = 10.0
_ITEMS_TO_TRUST = 16

_Queue = OrderedDict[asyncio.Future[None], int]
"""The waiting items of a batch, with their sizes."""


class _Key:
    """The items of one API key, those that wait by batch; all numbers count slots."""

    def __init__(self, per_round: int) -> None:
        self.items = self.waiting = self.turn = 0
        self.taken = 0  # slots in its turn
        self._per_round = per_round
        self._batches: OrderedDict[object, _Queue] = OrderedDict()  # in the order of the round
        self._given = 0  # slots that the first batch has received in this round
        self._next_round = 0  # waiting items that one whole round admits

    def ahead(self, batch: object) -> int:
        """The key's waiting items that get their slots before the batch's next."""
        rounds = len(self._batches.get(batch, ())) // self._per_round + 1
        return min(self.waiting, rounds * self._next_round)

    def add(self, batch: object, item: asyncio.Future[None], size: int) -> None:
        queue = self._batches.setdefault(batch, OrderedDict())
        queue[item] = size
        self.waiting += size
        self._next_round += size * (len(queue) <= self._per_round)

    @property
    def next_size(self) -> int:
        """The slots of the item whose turn it is."""
        return next(iter(next(iter(self._batches.values())).values()))

    def take(self) -> asyncio.Future[None]:
        """Remove the item whose turn it is."""
        batch, queue = next(iter(self._batches.items()))
        item, size = next(iter(queue.items()))
        self.remove(batch, item)
        if queue and not item.cancelled():
            self._given += size
            if self._given >= self._per_round:
                self._batches.move_to_end(batch)
                self._given = 0
        return item

    def remove(self, batch: object, item: asyncio.Future[None]) -> None:
        """Remove an item if it waits, and its batch if that was its last."""
        queue = self._batches.get(batch, OrderedDict())
        if item not in queue:
            return
        self._next_round -= queue[item] * (len(queue) <= self._per_round)
        self.waiting -= queue.pop(item)
        if not queue:
            if batch is next(iter(self._batches)):
                self._given = 0
            del self._batches[batch]


class Admission:
    """The queue and the slots of one replica; a long sequence is as many items as it takes slots.

    Args:
        concurrent: maximum items in progress; one that is larger is alone.
        window: decides how many of them, as it grows and shrinks.
        queued: maximum items waiting; ``place`` rejects further items, except those of a key that
            has less than its share: the whole, divided by the keys with items here.
        per_round: slots for one batch in a round; a usual group.
    """

    def __init__(
        self, concurrent: int, queued: int, window: Window | None = None, per_round: int = 8
    ) -> None:
        self._concurrent, self._window = concurrent, window
        self._busy = 0
        self.capacity = concurrent + queued  # maximum items in progress or waiting
        self._keys: OrderedDict[object, _Key] = OrderedDict()  # in the order of their turns
        self._per_round = per_round
        self._lanes: dict[object, Admission] = {}
        self._pace = Pace()
        self._turn = 0  # the latest that has ended
        self.items = 0  # in progress, in a lane or waiting
        self._refused = 0  # since ``demand`` was read

    @property
    def slots(self) -> int:
        """Maximum items in progress."""
        return int(self._window.size) if self._window else self._concurrent

    def demand(self) -> int:
        """Items here, and those refused since the last call, for which other replicas are needed.

        Clients wait before they retry, so that otherwise nobody would see what they want.
        """
        refused, self._refused = self._refused, 0
        return self.items + refused

    @asynccontextmanager
    async def place(
        self,
        within_s: float = math.inf,
        batch: object = None,
        key: str | None = None,
        size: int = 1,
    ) -> AsyncIterator[None]:
        """Wait for the item's slots and hold them.

        Args:
            within_s: time left until the item's deadline.
            batch: identifies the item's batch; None for a batch of its own.
            key: the name of the caller's API key; callers without one share None. Long items of a
                key wait apart, so that its short ones do not wait for them.
            size: its slots.

        Raises:
            OverloadedError: the queue is full, or too long for the item's deadline.
        """
        batch = object() if batch is None else batch
        ends = time.monotonic() + within_s
        queue = key if size == 1 else (key, "long")
        caller = self._keys.get(queue) or _Key(self._per_round)
        try:
            self._check(within_s, caller, batch, size)
        except OverloadedError:
            self._refused += size * (self.items >= self.slots)  # else it has too little time
            raise
        self._keys.setdefault(queue, caller).items += size
        self.items += size
        try:
            await self._slot(caller, batch, size)
            turn = caller.turn = max(caller.turn, self._turn) + size  # start-time fair queueing
            TURN.set(turn)
            place = _Place(self, turn, batch, key, ends, size)
            LANES.set(place.lane)
            try:
                yield
            finally:
                place.leave()
        finally:
            self.items -= size
            caller.items -= size
            if not caller.items:
                del self._keys[queue]

    def _check(self, within_s: float, caller: _Key, batch: object, size: int) -> None:
        others = [other for other in self._keys.values() if other is not caller]
        waiting = caller.waiting + sum(other.waiting for other in others)
        least = min(size, max(self.capacity, 1))
        is_full = self.items + least > self.capacity
        if is_full and (caller.items + least - 1) * (len(others) + 1) >= self.capacity:
            raise OverloadedError(
                f"this replica is full with {self.items} items (limit {self.capacity})",
                self._pace.seconds(waiting),
            )
        ahead = caller.ahead(batch)
        ahead += sum(min(other.waiting, ahead + 1) for other in others)
        wait_s = self._pace.seconds(self._busy + ahead + size)
        if self.items and wait_s > _MARGIN * within_s:  # idle, only an item can correct the pace
            raise OverloadedError(
                f"with {self.items} items in this replica, this one would take {wait_s:.1f} s, "
                f"too close to its deadline in {within_s:.1f} s",
                (wait_s - _MARGIN * within_s) / (1 - _MARGIN),  # both decrease while waiting
            )

    async def _slot(self, caller: _Key, batch: object, size: int) -> None:
        if self._fits(size) and not any(key.waiting for key in self._keys.values()):
            self._pace.passed(self._busy / self.slots)
            self._busy += size
            return
        item: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        caller.add(batch, item, size)
        try:
            await item
        except asyncio.CancelledError:
            if not item.cancelled():  # it received its slots when it was cancelled
                self._give_back(size)
            caller.remove(batch, item)
            raise

    def _fits(self, size: int) -> bool:
        return self._busy + size <= self.slots or not (self._busy or self.slots < 1)

    def leave(self, turn: int, size: int) -> None:
        """Take back the slots of an item with this turn."""
        self._turn = max(self._turn, turn)
        self._give_back(size)
        self._pace.done(size)

    def lane(self, lane: object, width: int) -> Admission:
        """The queue of a lane."""
        return self._lanes.setdefault(lane, Admission(width, self.capacity, per_round=1))

    def _give_back(self, size: int) -> None:
        self._pace.passed(min(1.0, self._busy / self.slots))
        self._busy -= size
        while keys := {name: key for name, key in self._keys.items() if key.waiting}:
            name, key = next(iter(keys.items()))
            size = key.next_size
            if not self._fits(size):
                return
            item = key.take()
            if item.cancelled():  # its slots go to the next one
                continue
            self._busy += size
            key.taken += size
            # Deficit round robin: a turn is as long as the longest item that is next.
            if key.taken >= max(key.next_size if key.waiting else 1 for key in keys.values()):
                self._keys.move_to_end(name)
                key.taken = 0
            item.set_result(None)


@dataclass
class _Place:
    """Where an item stands, and its slot until it leaves it."""

    admission: Admission
    turn: int
    batch: object
    key: str | None
    ends: float
    size: int
    holds: bool = True

    def leave(self) -> None:
        if self.holds:
            self.holds = False
            self.admission.leave(self.turn, self.size)

    @asynccontextmanager
    async def lane(self, lane: object, width: int) -> AsyncIterator[None]:
        self.leave()
        queue, left_s = self.admission.lane(lane, width), self.ends - time.monotonic()
        try:
            async with queue.place(left_s, self.batch, self.key):
                yield
        finally:
            LANES.set(self.lane)


class Pace:
    """Estimates the throughput with all slots in use, from the last seconds.

    Time is weighted by the fraction of slots in use. Otherwise a replica with few callers would
    look slow, and would reject a burst that it can handle.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._seen = 0
        self._items = 0.0
        self._seconds = 0.0

    def passed(self, busy: float) -> None:
        """Record the fraction of slots in use since the last call."""
        now = time.monotonic()
        passed, self._since = now - self._since, now
        if busy:
            kept = math.exp(-passed / _MEMORY_S)
            self._items *= kept
            self._seconds = kept * self._seconds + busy * passed

    def done(self, size: int = 1) -> None:
        """Record that an item is done."""
        self._seen += 1
        self._items += size

    def seconds(self, items: int) -> float:
        """The estimated time for a number of items; 0 without enough data."""
        return items * self._seconds / self._items if self._seen >= _ITEMS_TO_TRUST else 0.0


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


def replicas_for_items(ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """A Serve autoscaling policy: items in flight divided by the target per replica.

    Serve applies the delays and bounds. With zero replicas no items are reported, and Serve's count
    of waiting calls starts the first replica.
    """
    reported = (ctx.aggregated_metrics or {}).get("items", {})
    if not reported:
        return float(ctx.target_num_replicas), {}
    return sum(reported.values()) / ctx.config.target_ongoing_requests, {}
