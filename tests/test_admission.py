from __future__ import annotations

import asyncio

import pytest

from reward_serve.admission import Admission, OverloadedError


class Visitors:
    """Tasks that each hold a place until told to leave."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._leave: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.inside: list[int] = []

    async def enter(self, count: int = 1) -> None:
        for _ in range(count):
            number = len(self.tasks)
            self._leave.append(asyncio.Event())
            self.tasks.append(asyncio.create_task(self._visit(number)))
        await settle()

    async def leave(self, number: int) -> None:
        self._leave[number].set()
        await settle()

    async def _visit(self, number: int) -> None:
        async with self._admission.place():
            self.inside.append(number)
            try:
                await self._leave[number].wait()
            finally:
                self.inside.remove(number)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_no_more_than_concurrent_items_are_at_work() -> None:
    admission = Admission(concurrent=2, queued=3)
    visitors = Visitors(admission)
    await visitors.enter(5)
    assert visitors.inside == [0, 1]
    assert admission.items == 5


async def test_waiting_items_are_taken_in_order() -> None:
    visitors = Visitors(Admission(concurrent=1, queued=3))
    await visitors.enter(4)
    order = []
    for _ in range(4):
        (number,) = visitors.inside
        order.append(number)
        await visitors.leave(number)
    assert order == [0, 1, 2, 3]


@pytest.mark.parametrize(("concurrent", "queued"), [(1, 0), (1, 1), (2, 3)])
async def test_beyond_the_queue_an_item_is_refused_at_once(concurrent: int, queued: int) -> None:
    admission = Admission(concurrent, queued)
    visitors = Visitors(admission)
    await visitors.enter(concurrent + queued)
    async with asyncio.timeout(0.5):
        with pytest.raises(OverloadedError, match=f"takes {concurrent + queued}; retry"):
            async with admission.place():
                pytest.fail("a place beyond the last")
    assert admission.items == concurrent + queued


async def test_an_item_that_left_makes_room_for_one_more() -> None:
    admission = Admission(concurrent=1, queued=1)
    visitors = Visitors(admission)
    await visitors.enter(2)
    await visitors.leave(0)
    await visitors.enter()
    assert visitors.inside == [1]
    assert admission.items == 2


async def test_an_item_that_gives_up_waiting_frees_its_place_in_the_queue() -> None:
    admission = Admission(concurrent=1, queued=1)
    visitors = Visitors(admission)
    await visitors.enter(2)
    visitors.tasks[1].cancel()
    await settle()
    assert admission.items == 1
    await visitors.enter()
    await visitors.leave(0)
    assert visitors.inside == [2]


async def test_an_item_cancelled_at_work_frees_its_slot() -> None:
    admission = Admission(concurrent=1, queued=1)
    visitors = Visitors(admission)
    await visitors.enter(2)
    visitors.tasks[0].cancel()
    await settle()
    assert visitors.inside == [1]
    assert admission.items == 1


async def test_an_item_that_fails_frees_its_slot() -> None:
    admission = Admission(concurrent=1, queued=0)
    for _ in range(2):
        with pytest.raises(KeyError):
            async with admission.place():
                raise KeyError
    assert admission.items == 0


async def test_no_slot_is_lost_when_a_waiter_gives_up_as_its_turn_comes() -> None:
    admission = Admission(concurrent=1, queued=2)
    visitors = Visitors(admission)
    await visitors.enter(3)
    visitors.tasks[0].cancel()
    visitors.tasks[1].cancel()
    await settle()
    assert visitors.inside == [2]
    await visitors.leave(2)
    assert admission.items == 0
