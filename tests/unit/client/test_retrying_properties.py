"""Whatever becomes of each attempt: answers, faults, refusals, delays."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reward_serve.client.outcomes import Counters
from reward_serve.client.retrying import Endpoint, Retrier, Ticket
from reward_serve.client.transport import Request, ServiceUnavailableError
from reward_serve.schema import ScoreResult, Status, failure, longest_timeout_s
from tests import virtual_time
from tests.fake_transport import FakeTransport

MAX_ATTEMPTS = 4
CODES = [None, 401, 404, 413, 422, 429, 500, 503]
NEVER_AGAIN = {Status.OK, Status.INVALID, Status.UNPARSEABLE, Status.TRUNCATED, Status.TIMEOUT}


@dataclass(frozen=True)
class Attempt:
    """What becomes of one call: a fault of the way, or a status for each request; after how long.

    Attributes:
        pause_s: what the service asks to wait.
    """

    code: int | None
    faulty: bool
    statuses: Sequence[Status]
    takes_s: float
    pause_s: float | None


attempts = st.builds(
    Attempt,
    code=st.sampled_from(CODES),
    faulty=st.booleans(),
    statuses=st.lists(st.sampled_from(list(Status)), min_size=1, max_size=4),
    takes_s=st.sampled_from([0.0, 0.01, 0.3, 2.0, 9.0]),
    pause_s=st.sampled_from([None, 0.1, 3.0, 30.0]),
)
deadlines = st.sampled_from([0.05, 0.5, 3.0, 60.0, None, "soon", -1])


class Scripted(FakeTransport):
    """A transport whose n-th call does what the script's n-th entry says, the last from then on."""

    def __init__(self, script: Sequence[Attempt]) -> None:
        self._script = list(script)
        self._calls = 0
        self.asked: list[tuple[float, list[str]]] = []
        self.final: set[str] = set()
        self.split: set[str] = set()

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        bodies: list[Any] = list(requests)
        ids = [body["id"] for body in bodies]
        assert self.final.isdisjoint(ids), "asked again what was final"
        self.asked.append((time.monotonic(), ids))
        attempt = self._script[min(self._calls, len(self._script) - 1)]
        self._calls += 1
        await asyncio.sleep(attempt.takes_s)
        if attempt.faulty:
            if attempt.code in (413, 422):
                self.split |= set(ids)
            raise ServiceUnavailableError(
                "lost", status_code=attempt.code, retry_after_s=attempt.pause_s
            )
        statuses = list(attempt.statuses) * len(ids)
        outcomes = zip(ids, statuses, strict=False)
        results = [_result(request, status, attempt.pause_s) for request, status in outcomes]
        self.final |= {str(r.id) for r in results if r.status in NEVER_AGAIN}
        return results


def _result(request: str, status: Status, pause_s: float | None) -> ScoreResult:
    if status is Status.OK:
        return ScoreResult(id=request, status=status, score=1.0)
    return failure(status, "why", id=request, details={"retry_after_s": pause_s})


def retrier(transport: Scripted) -> Retrier:
    return Retrier([Endpoint(transport)], Counters(), MAX_ATTEMPTS)


@given(st.lists(attempts, min_size=1, max_size=6), st.lists(deadlines, max_size=5))
def test_every_request_ends_once_in_its_place_and_in_time(
    script: list[Attempt], timeouts: list[Any]
) -> None:
    bodies: list[dict[str, Any]] = [
        {"id": str(n), "response": "18", "timeout_s": timeout} for n, timeout in enumerate(timeouts)
    ]
    transport = Scripted(script)
    tickets = list(map(Ticket, bodies))
    delivered: Counter[Ticket] = Counter()
    results: dict[Ticket, ScoreResult] = {}
    asked: Counter[str] = Counter()

    def deliver(final: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        delivered.update(ticket for ticket, _ in final)
        results.update(final)

    async def ask() -> None:
        began = time.monotonic()
        await retrier(transport).ask(tickets, deliver)
        for moment, ids in transport.asked:  # from here on, a probe may ask, too
            asked.update(set(ids) - transport.split)
            for one in set(ids) - transport.split:
                assert moment - began <= longest_timeout_s([bodies[int(one)]]) + 1e-6

    virtual_time.run(ask)
    assert {ticket: result.id for ticket, result in results.items()} == {
        ticket: ticket.body["id"] for ticket in tickets
    }
    assert delivered == Counter(tickets)
    assert max(asked.values(), default=0) <= MAX_ATTEMPTS
