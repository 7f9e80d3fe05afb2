from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from reward_serve.client.coalescing import Coalescer
from reward_serve.schema import ScoreResult, Status


class Echo:
    """Answers each request with its own number as the score."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.batches: list[list[int]] = []
        self.cancelled = 0
        self._takes_s = takes_s

    async def __call__(self, bodies: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        self.batches.append([body["n"] for body in bodies])
        try:
            await asyncio.sleep(self._takes_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [ScoreResult(status=Status.OK, score=body["n"]) for body in bodies]


async def scores(coalescer: Coalescer, numbers: Sequence[int]) -> list[float | None]:
    results = await asyncio.gather(*(coalescer.ask({"n": n}) for n in numbers))
    return [result.score for result in results]


async def test_calls_that_come_together_travel_together_and_in_order() -> None:
    echo = Echo()
    assert await scores(Coalescer(echo, 0.01, 64), range(10)) == list(range(10))
    assert echo.batches == [list(range(10))]


async def test_a_batch_is_sent_when_it_is_full() -> None:
    echo = Echo()
    coalescer = Coalescer(echo, 60.0, 4)
    assert await scores(coalescer, range(8)) == list(range(8))
    assert echo.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]


async def test_a_call_alone_waits_no_longer_than_the_window() -> None:
    echo = Echo()
    coalescer = Coalescer(echo, 0.01, 64)
    async with asyncio.timeout(1):
        assert await scores(coalescer, [7]) == [7]
        assert await scores(coalescer, [8]) == [8]
    assert echo.batches == [[7], [8]]


async def test_a_caller_who_leaves_takes_nobody_along() -> None:
    echo = Echo(0.05)
    coalescer = Coalescer(echo, 0.0, 64)
    calls = [asyncio.ensure_future(coalescer.ask({"n": n})) for n in range(2)]
    await asyncio.sleep(0.02)
    calls[0].cancel()
    assert (await calls[1]).score == 1
    assert echo.cancelled == 0


async def test_a_batch_that_nobody_waits_for_is_cancelled() -> None:
    echo = Echo(60)
    coalescer = Coalescer(echo, 0.0, 64)
    calls = [asyncio.ensure_future(coalescer.ask({"n": n})) for n in range(2)]
    await asyncio.sleep(0.02)
    for call in calls:
        call.cancel()
    await asyncio.sleep(0.02)
    assert echo.cancelled == 1


async def test_callers_who_left_before_it_was_sent_are_not_asked_for() -> None:
    echo = Echo()
    coalescer = Coalescer(echo, 0.02, 64)
    calls = [asyncio.ensure_future(coalescer.ask({"n": n})) for n in range(2)]
    await asyncio.sleep(0)
    calls[0].cancel()
    await calls[1]
    assert echo.batches == [[1]]


async def test_a_fault_of_ours_reaches_every_caller() -> None:
    async def broken(bodies: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        raise ZeroDivisionError

    coalescer = Coalescer(broken, 0.0, 64)
    told = await asyncio.gather(
        *(coalescer.ask({"n": n}) for n in range(2)), return_exceptions=True
    )
    assert [type(error) for error in told] == [ZeroDivisionError] * 2
    with pytest.raises(ZeroDivisionError):
        await coalescer.ask({"n": 1})
