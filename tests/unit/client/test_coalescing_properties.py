"""Whoever submits, withdraws, is answered or fails, in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reward_serve.client.retrying import Coalescer, Ticket, hand_out
from reward_serve.schema import ScoreResult, Status
from tests import virtual_time
from tests.virtual_time import settle

WINDOW_S = 0.5
FATES = ["answer", "answer half", "fail", "break off"]
Op = tuple[str, int]

ops = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 5)),
        st.tuples(
            st.sampled_from(["answer", "fail", "break off", "answer half"]), st.integers(0, 5)
        ),
        st.tuples(st.just("withdraw"), st.integers(0, 40)),
        st.tuples(st.sampled_from(["settle", "wait"]), st.just(0)),
    ),
    max_size=40,
)


class BrokenError(Exception):
    """A fault of ours."""


class Batch:
    """What was asked, until the test decides what becomes of it."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self.tickets = list(tickets)
        self.decided: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def under_way(self) -> bool:
        return not self.decided.done()


class Callers:
    """Callers of one coalescer, by thread and by loop, and the service behind it."""

    def __init__(self, max_batch: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._coalescer = Coalescer(self._ask, self._loop, WINDOW_S, max_batch)
        self._max_batch = max_batch
        self.batches: list[Batch] = []
        self.tickets: list[Ticket] = []
        self._withdrawn: set[Ticket] = set()
        self._failed: set[Ticket] = set()

    async def do(self, op: Op) -> None:
        kind, number = op
        under_way = [batch for batch in self.batches if batch.under_way]
        if kind == "submit":
            first = len(self.tickets)
            loops = (self._loop, None)
            asked = [Ticket({"n": n}, loops[n % 2]) for n in range(first, first + number)]
            self.tickets += asked
            self._coalescer.submit(asked)
        elif kind == "withdraw" and self.tickets:
            ticket = self.tickets[number % len(self.tickets)]
            self._withdrawn.add(ticket)
            ticket.answer.cancel()
            self._coalescer.withdraw([ticket])
        elif kind == "settle":
            await settle()
            self._check()
        elif kind == "wait":
            await asyncio.sleep(WINDOW_S)
            await settle()
            self._check()
            assert self._unsent() == [], "longer than the window"
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
        batch = Batch(tickets)
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


@given(ops, st.integers(1, 6))
def test_every_request_gets_one_outcome_and_its_own(happenings: list[Op], max_batch: int) -> None:
    async def calls() -> None:
        callers = Callers(max_batch)
        for op in happenings:
            await callers.do(op)
        await callers.close()

    virtual_time.run(calls)
