from __future__ import annotations

import asyncio
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.replica.admission import Admission, within_deadline
from reward_serve.reward_models.base import DeadlinePassedError
from tests import virtual_time
from tests.virtual_time import in_virtual_time, settle


async def hold(
    admission: Admission, seconds: float, batch: object = None, within_s: float = math.inf
) -> None:
    async with admission.place(within_s, batch):
        await asyncio.sleep(seconds)


async def fill(admission: Admission, count: int, batch: object = None) -> None:
    """Add items that stay until the test ends."""
    tasks = [asyncio.ensure_future(hold(admission, 1e6, batch)) for _ in range(count)]
    await settle()
    assert not any(task.done() for task in tasks)


async def seen_at_work(admission: Admission, items: int, seconds: float) -> None:
    """Items that take twice as long, two at a time in two slots."""
    for _ in range(items // 2):
        await asyncio.gather(*(hold(admission, 2 * seconds) for _ in range(2)))


@pytest.mark.parametrize(("concurrent", "queued", "pause_s"), [(2, 0, 1), (2, 8, 4)])
@in_virtual_time
async def test_beyond_the_queue_an_item_is_refused_until_the_queue_is_drained(
    concurrent: int, queued: int, pause_s: float
) -> None:
    admission = Admission(concurrent, queued)
    await seen_at_work(admission, 20, 0.5)
    await fill(admission, concurrent + queued)
    with pytest.raises(OverloadedError, match=rf"limit {concurrent + queued}\); retry") as refusal:
        await hold(admission, 1)
    assert refusal.value.retry_after_s == pytest.approx(pause_s)
    assert admission.items == concurrent + queued


@pytest.mark.parametrize(
    ("arrivals", "order"),
    [
        ([("large", 10)], [*range(10)]),
        ([("large", 18), ("small", 3), (None, 1)], [*range(9), 18, 19, 20, 21, *range(9, 18)]),
        ([("large", 20), ("small", 8), ("later", 8)],
         [0, *range(1, 9), *range(20, 28), *range(28, 36), *range(9, 20)]),
        ([("at work", 1), ("small", 2), ("large", 10), (None, 1)], [*range(11), 13, 11, 12]),
    ],
)  # fmt: skip
@in_virtual_time
async def test_batches_are_admitted_in_rounds_of_several_slots(
    arrivals: list[tuple[str | None, int]], order: list[int]
) -> None:
    admission = Admission(concurrent=1, queued=99)
    seen = []

    async def visit(number: int, batch: object) -> None:
        async with admission.place(batch=batch):
            seen.append(number)
            await asyncio.sleep(1)

    batches = [batch for batch, count in arrivals for _ in range(count)]
    await asyncio.gather(*(visit(number, batch) for number, batch in enumerate(batches)))
    assert seen == order


@pytest.mark.parametrize("turns", [0, 1, 2])  # before, as and after it has the slot
@in_virtual_time
async def test_the_slot_of_an_item_that_leaves_goes_to_the_next(turns: int) -> None:
    admission = Admission(concurrent=1, queued=2)
    first, second, third = (asyncio.ensure_future(hold(admission, 1)) for _ in range(3))
    await settle()
    first.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    second.cancel()
    await third
    assert first.cancelled() and second.cancelled() and admission.items == 0


@in_virtual_time
async def test_in_a_lasting_overload_what_is_admitted_of_small_batches_is_in_time() -> None:
    """Two slots, a second an item, twice the capacity in calls of four."""
    admission, took = Admission(concurrent=2, queued=999), list[float]()
    await seen_at_work(admission, 20, 0.5)

    async def item(batch: object) -> None:
        began = asyncio.get_running_loop().time()
        with suppress(OverloadedError):
            await hold(admission, 1, batch, within_s=20.0)
            took.append(asyncio.get_running_loop().time() - began)

    async with asyncio.TaskGroup() as calls:
        for batch in range(200):
            for _ in range(4):
                calls.create_task(item(str(batch)))
            await asyncio.sleep(1)
    assert 400 <= len(took) < 450
    assert max(took) <= 20.0


@in_virtual_time
async def test_an_item_that_would_miss_its_deadline_is_refused_at_once() -> None:
    admission = Admission(concurrent=2, queued=999)
    await seen_at_work(admission, 14, 5.0)
    await hold(admission, 0, within_s=0.1)  # before anything is known, everyone is admitted
    await seen_at_work(admission, 20, 60.0)
    await hold(admission, 0, within_s=0.1)  # and into an idle replica, however slow it was
    admission = Admission(concurrent=2, queued=999)
    await seen_at_work(admission, 20, 0.5)
    await fill(admission, 20, batch="large")  # the next is done in 10.5 s
    with pytest.raises(
        OverloadedError, match=r"10\.5 s, too close to its deadline in 10\.0 s; retry after 12 s"
    ) as refusal:
        await hold(admission, 1, "large", within_s=10.0)
    assert refusal.value.retry_after_s == pytest.approx((10.5 - 7.5) / 0.25)
    single = asyncio.ensure_future(hold(admission, 1, within_s=10.0))  # waits for its round only
    await settle()
    assert admission.items == 21 and not single.done()


@in_virtual_time
async def test_a_few_callers_do_not_make_a_replica_look_slow() -> None:
    admission = Admission(concurrent=256, queued=999)
    for _ in range(100):
        await hold(admission, 0.5)
    await fill(admission, 512, batch="burst")  # of which 256 are done every half a second
    one_more = asyncio.ensure_future(hold(admission, 1, within_s=2.0))
    await settle()
    assert admission.items == 513 and not one_more.done()


@in_virtual_time
async def test_a_deadline_is_neither_an_inner_timeout_nor_anyones_cancellation() -> None:
    with pytest.raises(DeadlinePassedError, match=r"2\.5 s passed"):
        async with within_deadline(2.5):
            await asyncio.sleep(5)
    with pytest.raises(TimeoutError):
        async with within_deadline(5):
            raise TimeoutError
    with pytest.raises(EngineError):
        async with within_deadline(5):
            raise asyncio.CancelledError  # the engine's, not the caller's

    async def wait() -> None:
        async with within_deadline(5):
            await asyncio.sleep(5)

    task = asyncio.ensure_future(wait())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


Visit = tuple[int, int, int, int]

visits = st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 4), st.integers(1, 9))


@given(st.lists(visits, max_size=60), st.integers(1, 3), st.integers(0, 9))
def test_slots_are_kept_within_bounds_and_none_is_lost_whoever_comes_and_goes(
    expected: list[Visit], concurrent: int, queued: int
) -> None:
    """Each visitor comes at a time, in a batch, for some seconds, with some seconds' patience."""
    inside = 0

    async def visit(admission: Admission, came: Visit) -> None:
        nonlocal inside
        at, batch, stays, patience = came
        await asyncio.sleep(at)
        full = admission.items == concurrent + queued
        try:
            async with asyncio.timeout(patience), admission.place(batch=batch):
                inside += 1
                assert inside <= concurrent and admission.items <= concurrent + queued
                try:
                    await asyncio.sleep(stays)
                finally:
                    inside -= 1
        except OverloadedError:
            assert full
        except TimeoutError:
            pass

    async def main() -> None:
        admission = Admission(concurrent, queued)
        async with asyncio.timeout(1000):
            await asyncio.gather(*(visit(admission, came) for came in expected))
            assert admission.items == 0
            await asyncio.gather(*(hold(admission, 1) for _ in range(concurrent)))
        assert asyncio.get_running_loop().time() <= 1000 + 9 + 9 + 1  # every slot is free again

    virtual_time.run(main)
