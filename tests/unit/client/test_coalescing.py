from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from reward_serve.client.retrying import Coalescer, Ticket, hand_out
from reward_serve.schema import ScoreResult, Status


class Echo:
    """Answers each request with its own number as the score, when it is let."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.cancelled = 0
        self.held = False

    async def __call__(self, tickets: Sequence[Ticket]) -> None:
        self.batches.append([ticket.body["n"] for ticket in tickets])
        try:
            while self.held:  # noqa: ASYNC110 - an event would belong to one loop
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        hand_out((t, ScoreResult(status=Status.OK, score=t.body["n"])) for t in tickets)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own, as the client's."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def echo() -> Echo:
    return Echo()


def tickets(*numbers: int, loop: asyncio.AbstractEventLoop | None = None) -> list[Ticket]:
    return [Ticket({"n": n}, loop) for n in numbers]


def scores(asked: Sequence[Ticket]) -> list[float]:
    return [ticket.answer.result(timeout=30).score for ticket in asked]


def until(condition: object) -> None:
    """Wait for what another thread does."""
    assert callable(condition)
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_is_submitted_together_travels_together_and_in_order(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    coalescer = Coalescer(echo, loop, 60.0, 64)
    asked = tickets(*range(10))
    coalescer.submit(asked)

    assert scores(asked) == list(range(10))
    assert echo.batches == [list(range(10))]


def test_a_batch_is_sent_when_it_is_full(echo: Echo, loop: asyncio.AbstractEventLoop) -> None:
    coalescer = Coalescer(echo, loop, 60.0, 4)
    asked = tickets(*range(10))
    coalescer.submit(asked)

    assert scores(asked) == list(range(10))
    assert echo.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_batch_is_sent_before_it_is_too_large(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    coalescer = Coalescer(echo, loop, 60.0, 64)
    asked = tickets(*range(5))
    for ticket, size in zip(asked, (3, 4, 4, 9, 1), strict=True):
        ticket.body["response"] = "x" * (size * 2**20)
    coalescer.submit(asked)

    assert scores(asked) == list(range(5))
    assert echo.batches == [[0, 1], [2], [3], [4]]


def test_with_nothing_under_way_a_request_goes_at_once(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    coalescer = Coalescer(echo, loop, 60.0, 64)
    for n in range(3):
        asked = tickets(n)
        coalescer.submit(asked)
        assert scores(asked) == [n]
    assert echo.batches == [[0], [1], [2]]


def test_with_a_batch_under_way_others_wait_for_it_together(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    echo.held = True
    coalescer = Coalescer(echo, loop, 60.0, 64)
    asked = tickets(*range(4))
    coalescer.submit(asked[:1])
    until(lambda: echo.batches)
    for ticket in asked[1:]:
        coalescer.submit([ticket])
    time.sleep(0.02)
    echo.held = False

    assert scores(asked) == list(range(4))
    assert echo.batches == [[0], [1, 2, 3]]


def test_they_wait_no_longer_than_the_window(echo: Echo, loop: asyncio.AbstractEventLoop) -> None:
    echo.held = True
    coalescer = Coalescer(echo, loop, 0.02, 64)
    asked = tickets(0, 1)
    coalescer.submit(asked[:1])
    until(lambda: echo.batches)
    coalescer.submit(asked[1:])
    until(lambda: echo.batches == [[0], [1]])
    echo.held = False

    assert scores(asked) == [0, 1]


def test_many_threads_at_once_lose_nothing(echo: Echo, loop: asyncio.AbstractEventLoop) -> None:
    coalescer = Coalescer(echo, loop, 0.001, 16)
    asked = [tickets(*range(100 * k, 100 * k + 100)) for k in range(8)]

    def submit(mine: list[Ticket]) -> None:
        for ticket in mine:
            coalescer.submit([ticket])

    threads = [threading.Thread(target=submit, args=(mine,)) for mine in asked]
    for thread in threads:
        thread.start()
    for k, mine in enumerate(asked):
        assert scores(mine) == list(range(100 * k, 100 * k + 100))
    assert max(map(len, echo.batches)) <= 16


async def test_a_loop_awaits_its_own(echo: Echo, loop: asyncio.AbstractEventLoop) -> None:
    coalescer = Coalescer(echo, loop, 0.001, 16)
    asked = tickets(*range(40), loop=asyncio.get_running_loop())
    coalescer.submit(asked)

    assert [(await ticket.answer).score for ticket in asked] == list(range(40))


def test_a_caller_who_leaves_takes_nobody_along(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    echo.held = True
    coalescer = Coalescer(echo, loop, 0.0, 64)
    asked = tickets(0, 1)
    coalescer.submit(asked)
    until(lambda: echo.batches)
    coalescer.withdraw(asked[:1])
    time.sleep(0.02)
    echo.held = False

    assert scores(asked[1:]) == [1]
    assert echo.cancelled == 0


def test_a_batch_that_nobody_waits_for_is_cancelled(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    echo.held = True
    coalescer = Coalescer(echo, loop, 0.0, 64)
    asked = tickets(0, 1, 2)
    coalescer.submit(asked)
    until(lambda: echo.batches)
    hand_out([(asked[0], ScoreResult(status=Status.OK, score=0.0))])  # it has its answer
    coalescer.withdraw(asked[1:2])
    coalescer.withdraw(asked[2:])

    until(lambda: echo.cancelled)
    assert echo.cancelled == 1


def test_callers_who_left_before_it_was_sent_are_not_asked_for(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    echo.held = True
    coalescer = Coalescer(echo, loop, 60.0, 64)
    asked = tickets(0, 1, 2)
    coalescer.submit(asked[:1])
    until(lambda: echo.batches)
    coalescer.submit(asked[1:])
    coalescer.withdraw(asked[1:2])
    time.sleep(0.02)
    echo.held = False

    assert scores(asked[2:]) == [2]
    assert echo.batches == [[0], [2]]


def test_a_fault_of_ours_reaches_every_caller(loop: asyncio.AbstractEventLoop) -> None:
    async def broken(tickets: Sequence[Ticket]) -> None:
        raise ZeroDivisionError

    coalescer = Coalescer(broken, loop, 0.0, 64)
    asked = tickets(0, 1)
    coalescer.submit(asked)
    for ticket in asked:
        with pytest.raises(ZeroDivisionError):
            ticket.answer.result(timeout=30)


def test_a_call_cancelled_by_its_other_end_reaches_every_caller(
    loop: asyncio.AbstractEventLoop,
) -> None:
    async def cancelled(tickets: Sequence[Ticket]) -> None:
        raise asyncio.CancelledError

    coalescer = Coalescer(cancelled, loop, 0.0, 64)
    asked = tickets(0, 1)
    coalescer.submit(asked)
    for ticket in asked:
        with pytest.raises(RuntimeError, match="the service cancelled the call"):
            ticket.answer.result(timeout=30)


def test_a_loop_that_was_closed_meanwhile_is_no_fault(loop: asyncio.AbstractEventLoop) -> None:
    closed = asyncio.new_event_loop()
    (ticket,) = tickets(0, loop=closed)
    (other,) = tickets(1)
    closed.close()
    result = ScoreResult(status=Status.OK, score=1.0)
    hand_out([(ticket, result), (other, result)])

    assert scores([other]) == [1.0]


def test_a_request_that_cannot_be_measured_fails_alone(
    echo: Echo, loop: asyncio.AbstractEventLoop
) -> None:
    class Changing(dict[str, object]):
        def values(self) -> Any:
            raise RuntimeError("dictionary changed size during iteration")

    coalescer = Coalescer(echo, loop, 60.0, 64)
    asked = tickets(1, 2, 3)
    asked[1].body["metadata"] = Changing()
    coalescer.submit(asked)

    assert scores([asked[0], asked[2]]) == [1, 3]
    with pytest.raises(RuntimeError, match="changed size"):
        asked[1].answer.result(timeout=30)
