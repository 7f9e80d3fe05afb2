from __future__ import annotations

import asyncio

import pytest

from reward_serve.engines.base import EngineError, OverloadedError
from reward_serve.replica.admission import Admission, Pace, within_deadline
from reward_serve.reward_models.base import DeadlinePassedError
from tests.virtual_time import settle


class Visitors:
    """Tasks that each hold a place until the test ends it."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._leave: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.inside: list[int] = []

    async def enter(self, count: int = 1, batch: object = None) -> None:
        for _ in range(count):
            number = len(self.tasks)
            self._leave.append(asyncio.Event())
            self.tasks.append(asyncio.create_task(self._visit(number, batch)))
        await settle()

    async def leave(self, number: int) -> None:
        self._leave[number].set()
        await settle()

    async def _visit(self, number: int, batch: object) -> None:
        async with self._admission.place(batch=batch):
            self.inside.append(number)
            try:
                await self._leave[number].wait()
            finally:
                self.inside.remove(number)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("concurrent", "queued"), [(1, 0), (1, 1), (2, 3)])
async def test_beyond_the_queue_an_item_is_refused_at_once(concurrent: int, queued: int) -> None:
    admission = Admission(concurrent, queued)
    visitors = Visitors(admission)
    await visitors.enter(concurrent + queued)
    async with asyncio.timeout(30):
        with pytest.raises(OverloadedError, match=rf"limit {concurrent + queued}\); retry"):
            async with admission.place():
                pytest.fail("a place beyond the last")
    assert admission.items == concurrent + queued


@pytest.mark.parametrize(
    ("per_round", "arrivals", "order"),
    [
        (1, [("large", 4)], [0, 1, 2, 3]),
        (1, [("large", 5), ("small", 3), (None, 1)], [0, 1, 5, 8, 2, 6, 3, 7, 4]),
        (4, [("large", 10), ("small", 4), ("later", 4)],
         [0, *range(1, 5), *range(10, 14), *range(14, 18), *range(5, 10)]),
        (3, [("at work", 1), ("small", 2), ("large", 5), (None, 1)], [0, 1, 2, 3, 4, 5, 8, 6, 7]),
    ],
)  # fmt: skip
async def test_batches_are_admitted_in_rounds_of_several_slots(
    per_round: int, arrivals: list[tuple[str | None, int]], order: list[int]
) -> None:
    visitors = Visitors(Admission(concurrent=1, queued=99, per_round=per_round))
    for batch, count in arrivals:
        await visitors.enter(count, batch)
    seen = []
    for _ in order:
        (number,) = visitors.inside
        seen.append(number)
        await visitors.leave(number)
    assert seen == order


async def test_in_a_lasting_overload_what_is_admitted_of_small_batches_is_in_time() -> None:
    """Two slots, a second an item, twice the capacity in calls of four."""
    clock = Clock()
    admission = Admission(concurrent=2, queued=999, clock=clock)
    await seen_at_work(admission, clock, 20, 1.0)
    ended: list[float] = []
    working: list[asyncio.Future[None]] = []
    refused = 0

    async def item(batch: object) -> None:
        nonlocal refused
        began = clock.now
        try:
            async with admission.place(within_s=20.0, batch=batch):
                working.append(asyncio.get_running_loop().create_future())
                await working[-1]
        except OverloadedError:
            refused += 1
        else:
            ended.append(clock.now - began)

    tasks = []
    for _ in range(200):
        batch = object()
        tasks += [asyncio.create_task(item(batch)) for _ in range(4)]
        await settle()
        clock.now += 1.0
        for done in [working.pop(0) for _ in range(2)]:
            done.set_result(None)
        await settle()
    for task in tasks:
        task.cancel()
    assert len(ended) == 400
    assert refused > 300
    assert max(ended) <= 20.0


async def seen_at_work(admission: Admission, clock: Clock, items: int, seconds: float) -> None:
    """Items of which two at a time, in two slots, take twice so long."""
    for _ in range(items // 2):
        async with admission.place(), admission.place():
            clock.now += 2 * seconds


async def test_an_item_that_would_miss_its_deadline_is_refused_at_once() -> None:
    clock = Clock()
    admission = Admission(concurrent=2, queued=999, clock=clock)
    await seen_at_work(admission, clock, 20, 0.5)
    visitors = Visitors(admission)
    await visitors.enter(20, batch="large")  # the next is done in 10.5 s
    with pytest.raises(
        OverloadedError, match=r"10\.5 s, too close to its deadline in 10\.0 s; retry after 12 s"
    ) as refusal:
        async with asyncio.timeout(30), admission.place(within_s=10.0, batch="large"):
            pytest.fail("a place too late")
    assert refusal.value.retry_after_s == pytest.approx((10.5 - 7.5) / 0.25)
    assert admission.items == 20
    # A single request waits for its round and not for the batch.
    single = asyncio.create_task(admission.place(within_s=10.0).__aenter__())
    await settle()
    assert admission.items == 21
    single.cancel()


async def test_before_anything_was_seen_everyone_is_let_in() -> None:
    clock = Clock()
    admission = Admission(concurrent=2, queued=999, clock=clock)
    await seen_at_work(admission, clock, 14, 5.0)
    async with admission.place(within_s=0.1):
        assert admission.items == 1


async def test_a_few_callers_do_not_make_a_replica_look_slow() -> None:
    clock = Clock()
    admission = Admission(concurrent=256, queued=999, clock=clock)
    for _ in range(100):
        async with admission.place():
            clock.now += 0.5
    visitors = Visitors(admission)
    await visitors.enter(512, batch="burst")  # of which 256 are done every half a second
    one_more = asyncio.create_task(admission.place(within_s=2.0).__aenter__())
    await settle()
    assert admission.items == 513
    one_more.cancel()


async def test_a_full_queue_asks_to_wait_until_it_is_drained() -> None:
    clock = Clock()
    admission = Admission(concurrent=2, queued=8, clock=clock)
    await seen_at_work(admission, clock, 20, 0.5)
    await Visitors(admission).enter(10)
    with pytest.raises(OverloadedError, match=r"limit 10\); retry after 4 s") as refusal:
        async with admission.place():
            pytest.fail("a place beyond the last")
    assert refusal.value.retry_after_s == pytest.approx(4.0)


def test_a_pace_is_that_of_the_last_seconds_of_work() -> None:
    clock = Clock()
    pace = Pace(clock)
    for seconds in (*[0.1] * 200, *[0.5] * 200):
        clock.now += seconds
        pace.passed(1.0)
        pace.done()
    assert pace.seconds(10) == pytest.approx(5.0, rel=0.03)
    clock.now += 3600  # idle
    pace.passed(0.0)
    clock.now += 0.5
    pace.passed(1.0)
    pace.done()
    assert pace.seconds(10) == pytest.approx(5.0, rel=0.03)


async def test_the_deadline_differs_from_a_timeout_inside_the_block() -> None:
    with pytest.raises(DeadlinePassedError, match=r"0\.01 s passed"):
        async with within_deadline(0.01):
            await asyncio.sleep(5)
    with pytest.raises(TimeoutError):
        async with within_deadline(5):
            raise TimeoutError


async def test_a_cancelled_engine_call_is_an_engine_error_and_a_cancelled_caller_is_not() -> None:
    with pytest.raises(EngineError):
        async with within_deadline(5):
            raise asyncio.CancelledError

    async def wait() -> None:
        async with within_deadline(5):
            await asyncio.sleep(5)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
