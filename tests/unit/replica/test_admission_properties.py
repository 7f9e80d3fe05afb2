"""Whoever comes, goes or gives up, in whatever order."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from reward_serve.engines.base import OverloadedError
from reward_serve.replica.admission import Admission
from tests import virtual_time
from tests.virtual_time import settle

Op = tuple[str, int]

ops = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 3)),
        st.tuples(st.just("arrive"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["leave", "cancel"]), st.integers(0, 12)),
        st.tuples(st.just("settle"), st.just(0)),
    ),
    max_size=60,
)


class House:
    """Items that come, hold their place and go; who was let in past whom."""

    def __init__(self, concurrent: int, queued: int, per_round: int) -> None:
        self.admission = Admission(concurrent, queued, per_round=per_round)
        self._per_round = per_round
        self._concurrent, self._capacity = concurrent, concurrent + queued
        self._inside: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: Counter[int] = Counter()
        self._passed: dict[int, Counter[int]] = {}
        self.refused = 0

    async def do(self, op: Op) -> None:
        kind, number = op
        if kind == "arrive":
            await settle()  # who has been given a slot is in before another comes
            self._tasks.append(asyncio.create_task(self._visit(number)))
            await asyncio.sleep(0)
        elif kind == "leave" and self._inside:
            self._inside.pop(number % len(self._inside)).set()
        elif kind == "cancel" and self._tasks:
            self._tasks[number % len(self._tasks)].cancel()
        elif kind == "settle":
            await settle()
            self._check()

    async def close(self) -> None:
        while self._inside or any(not task.done() for task in self._tasks):
            await settle()
            self._check()
            for event in self._inside:
                event.set()
            self._inside.clear()
        assert self.admission.items == 0
        for task in self._tasks:
            assert task.cancelled() or task.exception() is None

    async def _visit(self, batch: int) -> None:
        known = self.admission.items
        go = asyncio.Event()
        waiting = False
        try:
            self._waiting[batch] += 1
            waiting = True
            self._passed.setdefault(batch, Counter())
            async with self.admission.place(batch=batch):
                self._left_queue(batch)
                waiting = False
                self._let_in(batch)
                self._inside.append(go)
                with suppress(asyncio.CancelledError):
                    await go.wait()
                if go in self._inside:
                    self._inside.remove(go)
        except OverloadedError:
            self.refused += 1
            assert known >= self._capacity
        finally:
            if waiting:
                self._left_queue(batch)

    def _left_queue(self, batch: int) -> None:
        self._waiting[batch] -= 1
        if not self._waiting[batch]:
            self._passed.pop(batch, None)

    def _let_in(self, batch: int) -> None:
        for other, passed in self._passed.items():
            if other != batch:
                passed[batch] += 1
                assert passed[batch] <= self._per_round, f"{batch} went too often before {other}"
        if batch in self._passed:
            self._passed[batch] = Counter()

    def _check(self) -> None:
        assert len(self._inside) <= self._concurrent
        assert self.admission.items <= self._capacity
        waiting = sum(self._waiting.values())
        assert self.admission.items == len(self._inside) + waiting
        assert not waiting or len(self._inside) == self._concurrent, "a slot is free and one waits"


@given(ops, st.integers(1, 3), st.integers(0, 6), st.integers(1, 3))
def test_slots_are_kept_within_bounds_and_given_in_rounds(
    happenings: list[Op], concurrent: int, queued: int, per_round: int
) -> None:
    async def visits() -> None:
        house = House(concurrent, queued, per_round)
        for op in happenings:
            await house.do(op)
        await house.close()
        for _ in range(concurrent):  # every slot is free again
            await house.do(("arrive", 0))
        await settle()
        assert len(house._inside) == concurrent
        await house.close()

    virtual_time.run(visits)
