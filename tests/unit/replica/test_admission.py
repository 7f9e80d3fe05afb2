import asyncio
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.child_process import LANES
from reward_serve.engines.base import TURN, EngineError, OverloadedError
from reward_serve.replica.admission import Admission, within_deadline
from reward_serve.reward_models.base import DeadlinePassedError
from tests import virtual_time
from tests.virtual_time import in_virtual_time, settle


async def hold(
    admission: Admission,
    seconds: float,
    batch: object = None,
    within_s: float = math.inf,
    key: str | None = None,
) -> None:
    async with admission.place(within_s, batch, key):
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
async def test_refused_items_are_demand_if_other_replicas_could_take_them() -> None:
    admission = Admission(concurrent=2, queued=0)
    await fill(admission, 2)
    for _ in range(3):
        with pytest.raises(OverloadedError):
            await hold(admission, 1)
    assert [admission.demand(), admission.demand()] == [5, 2]
    admission = Admission(concurrent=2, queued=9)
    await seen_at_work(admission, 20, 60.0)
    await fill(admission, 1)
    with pytest.raises(OverloadedError):
        await hold(admission, 1, within_s=1.0)  # nobody is as fast
    assert admission.demand() == 1


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


async def finished(admission: Admission, arrivals: list[tuple[str | None, int]]) -> list[str]:
    """The keys of the items in the order in which they end, each after a second in one slot."""
    order: list[str] = []

    async def visit(key: str | None) -> None:
        async with admission.place(key=key):
            await asyncio.sleep(1)
            order.append(str(key))

    keys = [key for key, count in arrivals for _ in range(count)]
    await asyncio.gather(*map(visit, keys))
    return order


@in_virtual_time
async def test_keys_take_turns_however_much_one_of_them_asks() -> None:
    order = await finished(Admission(1, 99), [("busy", 40), ("small", 4), (None, 2)])
    assert order[:11] == ["busy"] + ["busy", "small", "None"] * 2 + ["busy", "small"] * 2
    assert order[11:] == ["busy"] * 35  # a key that leaves gives its turns to the others


@in_virtual_time
async def test_a_keys_batches_take_turns_among_themselves() -> None:
    admission, order = Admission(1, 99), list[str]()

    async def visit(batch: str, key: str) -> None:
        async with admission.place(batch=batch, key=key):
            await asyncio.sleep(1)
            order.append(batch)

    visits = [("a1", "a")] * 10 + [("a2", "a")] * 2 + [("b", "b")] * 3
    await asyncio.gather(*(visit(*arguments) for arguments in visits))
    assert order == [*["a1"], *["a1", "b"] * 3, *["a1"] * 5, "a2", "a2", "a1"]


@in_virtual_time
async def test_the_engine_is_shared_in_turn_too_and_a_key_keeps_its_order() -> None:
    """Sixteen items in progress; those of the small key come last and are next in line."""
    admission, turns = Admission(16, 0), list[tuple[str, int]]()

    async def visit(key: str, seconds: float) -> None:
        async with admission.place(key=key):
            turns.append((key, TURN.get()))
            await asyncio.sleep(seconds)

    busy = [asyncio.create_task(visit("busy", 1 + number)) for number in range(12)]
    await asyncio.sleep(3.5)  # of which three have ended
    small = [asyncio.create_task(visit("small", 1)) for _ in range(4)]
    await asyncio.gather(*busy, *small)
    assert [turn for key, turn in turns if key == "busy"] == [*range(1, 13)]
    assert [turn for key, turn in turns if key == "small"] == [4, 5, 6, 7]


@in_virtual_time
async def test_a_full_queue_admits_a_key_up_to_its_share_of_the_whole() -> None:
    admission = Admission(2, 6)
    busy = [asyncio.ensure_future(finished(admission, [("busy", 1)])) for _ in range(8)]
    await settle()
    with pytest.raises(OverloadedError, match="full with 8 items"):
        await finished(admission, [("busy", 1)])
    small = [asyncio.ensure_future(finished(admission, [("small", 1)])) for _ in range(4)]
    await settle()
    assert admission.items == 12  # half of 8 for each of two keys, though one had all
    for key in ("busy", "small"):
        with pytest.raises(OverloadedError, match="full with 12 items"):
            await finished(admission, [(key, 1)])
    third = [asyncio.ensure_future(finished(admission, [("third", 1)])) for _ in range(3)]
    await settle()
    assert admission.items == 15
    for task in (*small, *third):
        task.cancel()
    await settle()
    assert admission.items == 8
    await asyncio.gather(*busy)
    assert await finished(admission, [("busy", 8)]) == ["busy"] * 8  # nothing is remembered


@in_virtual_time
async def test_a_wait_is_estimated_by_the_keys_turn() -> None:
    admission = Admission(concurrent=2, queued=999)
    await seen_at_work(admission, 20, 0.5)
    busy = [asyncio.ensure_future(finished(admission, [("busy", 1)])) for _ in range(100)]
    await settle()
    assert await finished(admission, [("small", 1)]) == ["small"]
    with pytest.raises(OverloadedError, match="too close to its deadline"):
        await hold(admission, 1, within_s=10.0, key="busy")
    await hold(admission, 1, within_s=10.0, key="small")
    for task in busy:
        task.cancel()


Visit = tuple[int, int, int, int]

visits = st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 4), st.integers(1, 9))


@given(st.lists(visits, max_size=60), st.integers(1, 3), st.integers(0, 9), st.integers(1, 3))
def test_slots_are_kept_within_bounds_and_none_is_lost_whoever_comes_and_goes(
    expected: list[Visit], concurrent: int, queued: int, keys: int
) -> None:
    """Each visitor comes at a time, in a batch, for some seconds, with some seconds' patience."""
    inside, capacity = 0, concurrent + queued
    limit = sum(math.ceil(capacity / present) for present in range(1, keys + 1))

    async def visit(admission: Admission, came: Visit) -> None:
        nonlocal inside
        at, batch, stays, patience = came
        await asyncio.sleep(at)
        full = admission.items >= capacity
        try:
            async with asyncio.timeout(patience), admission.place(batch=batch, key=str(at % keys)):
                inside += 1
                assert inside <= concurrent and admission.items <= limit
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


@in_virtual_time
async def test_who_waits_for_a_lane_holds_no_slot_and_stands_before_no_other_keys_item() -> None:
    admission, ended = Admission(2, 64), list[str]()

    async def in_lane(key: str, within_s: float = math.inf) -> None:
        async with admission.place(within_s, key, key), LANES.get()("slow", 1):
            await asyncio.sleep(10)
            ended.append(key)

    await asyncio.gather(*(in_lane("warm") for _ in range(16)))
    tasks = [asyncio.ensure_future(in_lane("a")) for _ in range(30)]
    await settle()
    await hold(admission, 0, within_s=1, key="b")
    with pytest.raises(OverloadedError):
        await in_lane("b", within_s=15)
    await in_lane("b", within_s=60)
    assert ended[16:] in (["a", "b"], ["a", "a", "b"])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert admission.items == 0


@in_virtual_time
async def test_a_long_sequence_takes_its_slots_and_is_not_overtaken() -> None:
    admission, seen = Admission(concurrent=4, queued=99), []

    async def visit(name: str, size: int, seconds: float = 1.0) -> None:
        async with admission.place(size=size):
            seen.append(name)
            assert admission._busy <= max(4, size)
            await asyncio.sleep(seconds)

    names = [("a", 1), ("b", 2), ("long", 64), ("c", 1), ("d", 4), ("e", 1)]
    await asyncio.gather(*(visit(*named) for named in names))
    assert seen == ["a", "b", "c", "e", "long", "d"]
    assert (admission.items, admission._busy) == (0, 0)


@in_virtual_time
async def test_keys_share_slots_by_tokens() -> None:
    admission = Admission(concurrent=8, queued=999)
    ended: dict[str, int] = {"long": 0, "short": 0}

    async def visit(key: str, size: int) -> None:
        with suppress(asyncio.TimeoutError):
            async with asyncio.timeout(40), admission.place(key=key, size=size):
                await asyncio.sleep(1)
                ended[key] += size

    await asyncio.gather(
        *(visit("long", 8) for _ in range(40)), *(visit("short", 1) for _ in range(400))
    )
    assert 0.8 <= ended["long"] / ended["short"] <= 1.25


@in_virtual_time
async def test_a_full_replica_counts_a_sequence_by_its_slots() -> None:
    admission = Admission(concurrent=4, queued=4)
    running = [asyncio.ensure_future(_sized(admission, size)) for size in (4, 3)]
    await settle()
    with pytest.raises(OverloadedError, match="full with 7 items"):
        await _sized(admission, 2)
    last = asyncio.ensure_future(_sized(admission, 1))
    await settle()
    assert admission.items == 8
    for task in (*running, last):
        task.cancel()
    await asyncio.gather(*running, last, return_exceptions=True)
    await settle()
    assert (admission.items, admission._busy) == (0, 0)


async def _sized(admission: Admission, size: int) -> None:
    async with admission.place(size=size):
        await asyncio.sleep(1e6)


@in_virtual_time
async def test_short_items_do_not_wait_for_the_long_ones_of_their_own_key() -> None:
    admission = Admission(concurrent=8, queued=999)
    waits: list[float] = []
    began = asyncio.get_running_loop().time()

    async def visit(size: int) -> None:
        async with admission.place(size=size):
            if size == 1:
                waits.append(asyncio.get_running_loop().time() - began)
            await asyncio.sleep(1)

    await asyncio.gather(*(visit(4) for _ in range(40)), *(visit(1) for _ in range(8)))
    assert max(waits) <= 4
