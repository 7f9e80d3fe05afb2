"""An iteration of the event loop begins some items; the others wait in order, and wake once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Any

import pytest

from reward_serve.replica.scoring import LoopBudget

SHORT, LONG = 500, 5_000


class Steps:
    """Awaits something and counts how often the event loop resumes it."""

    def __init__(self, work: Any) -> None:
        self.work, self.count = work, 0

    def __await__(self) -> Generator[Any, Any, None]:
        inner = self.work.__await__()
        try:
            while True:
                self.count += 1
                yield next(inner)
        except StopIteration:
            return


async def iterations_of(sizes: list[int]) -> list[int]:
    """The iteration of the event loop in which each item begins."""
    budget, now, began = LoopBudget(), 0, []

    async def one(characters: int) -> None:
        await budget.work(characters)
        began.append(now)

    tasks = [asyncio.create_task(one(size)) for size in sizes]
    while not all(task.done() for task in tasks):
        now += 1
        await asyncio.sleep(0)
    return began


async def test_an_iteration_has_room_for_eight_short_items() -> None:
    began = await iterations_of([SHORT] * 24)
    assert max(began.count(number) for number in began) == 8


async def test_an_iteration_has_room_for_one_long_item_beside_short_ones() -> None:
    began = await iterations_of([LONG, LONG, LONG, SHORT])
    assert sorted(map(began.count, set(began)), reverse=True) == [2, 1, 1]


async def test_items_begin_in_order_of_arrival() -> None:
    budget, order = LoopBudget(), []

    async def one(number: int) -> None:
        await budget.work(SHORT)
        order.append(number)

    await asyncio.gather(*map(one, range(100)))
    assert order == list(range(100))


async def test_an_item_that_waits_is_woken_once() -> None:
    budget = LoopBudget()
    steps = [Steps(budget.work(SHORT)) for _ in range(64)]

    async def one(step: Steps) -> None:
        await step

    await asyncio.gather(*map(one, steps))
    assert max(step.count for step in steps) == 2


async def test_the_capacity_of_an_item_that_is_cancelled_goes_to_the_next() -> None:
    budget = LoopBudget()
    tasks = [asyncio.create_task(budget.work(LONG)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait_for(tasks[2], 30)
    assert tasks[1].cancelled()


async def test_validation_of_a_whole_batch_is_spread_over_iterations() -> None:
    budget, now = LoopBudget(), 0
    began: list[int] = []

    async def one() -> None:
        await budget.validation()
        until = time.thread_time() + 0.004
        while time.thread_time() < until:
            pass
        began.append(now)

    tasks = [asyncio.create_task(one()) for _ in range(12)]
    while not all(task.done() for task in tasks):
        now += 1
        await asyncio.sleep(0)
    most = max(began.count(number) for number in began)
    assert most <= 4, "10 ms of validation, and the item that exceeds them"


@pytest.mark.parametrize("characters", [0, SHORT, LONG])
async def test_an_item_alone_does_not_wait(characters: int) -> None:
    step = Steps(LoopBudget().work(characters))
    await step
    assert step.count == 1
