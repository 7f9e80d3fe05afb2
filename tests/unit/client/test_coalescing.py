from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.client.retrying import WINDOW_S, Coalescer, Ticket, hand_out
from reward_serve.schema import ScoreResult, Status
from tests import virtual_time
from tests.virtual_time import in_virtual_time, settle

Op = tuple[str, int]


class BrokenError(Exception):
    """A fault of ours."""


class Sent:
    """What was sent, until the test decides what becomes of it."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self.tickets = list(tickets)
        self.numbers = [ticket.body["n"] for ticket in tickets]
        self.decided: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def under_way(self) -> bool:
        return not self.decided.done()


class Callers:
    """Callers of one coalescer, by thread and by loop, and the service behind it."""

    def __init__(self, max_batch: int = 64) -> None:
        self._loop = asyncio.get_running_loop()
        self._coalescer = Coalescer(self._ask, self._loop, max_batch)
        self._max_batch = max_batch
        self.batches: list[Sent] = []
        self.tickets: list[Ticket] = []
        self._withdrawn: set[Ticket] = set()
        self._failed: set[Ticket] = set()

    @property
    def sent(self) -> list[list[int]]:
        return [batch.numbers for batch in self.batches]

    def submit(self, number: int, **fields: Any) -> None:
        first = len(self.tickets)
        loops = (self._loop, None)
        asked = [Ticket({"n": n, **fields}, loops[n % 2]) for n in range(first, first + number)]
        self.tickets += asked
        self._coalescer.submit(asked)

    def withdraw(self, number: int) -> None:
        ticket = self.tickets[number % len(self.tickets)]
        self._withdrawn.add(ticket)
        ticket.answer.cancel()
        self._coalescer.withdraw([ticket])

    async def do(self, op: Op) -> None:
        kind, number = op
        under_way = [batch for batch in self.batches if batch.under_way]
        if kind == "submit":
            self.submit(number)
        elif kind == "withdraw" and self.tickets:
            self.withdraw(number)
        elif kind in ("settle", "wait"):
            if kind == "wait":
                await asyncio.sleep(WINDOW_S)
            await settle()
            self._check()
            assert kind == "settle" or self._unsent() == [], "longer than the window"
        elif under_way:
            under_way[number % len(under_way)].decided.set_result(kind)

    async def close(self) -> None:
        await settle()
        while under_way := [batch for batch in self.batches if batch.under_way]:
            for batch in under_way:
                batch.decided.set_result("answer")
            await settle()
            self._check()
        for ticket in self.tickets:
            self._check_outcome(ticket)

    async def _ask(self, tickets: Sequence[Ticket]) -> None:
        batch = Sent(tickets)
        self.batches.append(batch)
        decision = await batch.decided
        if decision == "answer half":
            self._answer(tickets[::2])
            await asyncio.sleep(0)
        if decision.startswith("answer"):
            self._answer(tickets)
            return
        self._failed |= {ticket for ticket in tickets if not ticket.answer.done()}
        raise BrokenError if decision == "fail" else asyncio.CancelledError

    def _answer(self, tickets: Sequence[Ticket]) -> None:
        hand_out((t, ScoreResult(status=Status.OK, score=t.body["n"])) for t in tickets)

    def _unsent(self) -> list[Any]:
        sent = {ticket for batch in self.batches for ticket in batch.tickets}
        return [t.body["n"] for t in self.tickets if t not in sent | self._withdrawn]

    def _check(self) -> None:
        sent = [ticket for batch in self.batches for ticket in batch.tickets]
        assert len(sent) == len(set(sent)), "a request went twice"
        assert all(len(batch.tickets) <= self._max_batch for batch in self.batches)
        if not any(batch.under_way for batch in self.batches):
            assert self._unsent() == [], "nothing is under way and one waits"
        for batch in self.batches:
            gone = all(ticket.answer.done() for ticket in batch.tickets)
            assert batch.under_way or not batch.decided.cancelled() or gone

    def _check_outcome(self, ticket: Ticket) -> None:
        answer = ticket.answer
        assert answer.done(), f"{ticket.body['n']} was never answered"
        if answer.cancelled():
            assert ticket in self._withdrawn
        elif answer.exception() is None:
            assert answer.result().score == ticket.body["n"]
        else:
            assert ticket in self._failed


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("submit"), st.integers(1, 5)),
            st.tuples(
                st.sampled_from(["answer", "fail", "break off", "answer half"]), st.integers(0, 5)
            ),
            st.tuples(st.just("withdraw"), st.integers(0, 40)),
            st.tuples(st.sampled_from(["settle", "wait"]), st.just(0)),
        ),
        max_size=40,
    ),
    st.integers(1, 6),
)
def test_every_request_gets_one_outcome_and_its_own(happenings: list[Op], max_batch: int) -> None:
    async def calls() -> None:
        callers = Callers(max_batch)
        for op in happenings:
            await callers.do(op)
        await callers.close()

    virtual_time.run(calls)


@in_virtual_time
async def test_what_is_submitted_together_travels_together_in_order_up_to_the_limits() -> None:
    callers = Callers(4)
    callers.submit(10)
    await callers.do(("wait", 0))
    assert callers.sent == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    await callers.close()

    callers = Callers()
    for size in (3, 4, 4, 9, 1):  # MiB, of which a batch has at most 8
        callers.submit(1, response="x" * (size * 2**20))
    await callers.do(("wait", 0))
    assert callers.sent == [[0, 1], [2], [3], [4]]
    await callers.close()


@in_virtual_time
async def test_with_a_batch_under_way_others_wait_for_it_together_or_for_the_window() -> None:
    callers = Callers()
    callers.submit(1)
    await settle()
    for _ in range(2):
        callers.submit(1)
        await settle()
    assert callers.sent == [[0]]
    await callers.do(("answer", 0))
    await settle()
    assert callers.sent == [[0], [1, 2]]
    callers.submit(1)
    await callers.do(("wait", 0))
    assert callers.sent == [[0], [1, 2], [3]]
    await callers.close()


@in_virtual_time
async def test_requests_of_several_models_travel_apart() -> None:
    callers = Callers()
    for model in ("a", None, "a", ["no name"]):
        callers.submit(1, model=model)
    await settle()
    assert callers.sent == [[0, 2], [1], [3]]
    await callers.close()


@in_virtual_time
async def test_a_batch_is_cancelled_when_nobody_waits_for_it_and_not_before() -> None:
    callers = Callers()
    callers.submit(3)
    await settle()
    (batch,) = callers.batches
    hand_out([(batch.tickets[1], ScoreResult(status=Status.OK, score=1.0))])
    callers.withdraw(0)
    await settle()
    assert batch.under_way
    callers.withdraw(2)
    await settle()
    assert batch.decided.cancelled()


def test_a_loop_that_was_closed_meanwhile_is_no_fault() -> None:
    closed = asyncio.new_event_loop()
    ticket, other = Ticket({}, closed), Ticket({})
    closed.close()
    result = ScoreResult(status=Status.OK, score=1.0)
    hand_out([(ticket, result), (other, result)])
    assert other.answer.result(timeout=30) is result


@in_virtual_time
async def test_a_request_that_its_caller_changes_meanwhile_fails_alone() -> None:
    class Changing(dict[str, object]):
        def values(self) -> Any:
            raise RuntimeError("dictionary changed size during iteration")

    callers = Callers()
    callers.submit(1)
    callers.submit(1, metadata=Changing())
    callers.submit(1)
    await settle()
    assert callers.sent == [[0, 2]]
    with pytest.raises(RuntimeError, match="changed size"):
        callers.tickets[1].answer.result()
    callers.batches[0].decided.set_result("answer")
    await settle()
