from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.client import retrying
from reward_serve.client.retrying import Batch, Deliver, Endpoint, Ticket, failed_score
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.schema import ScoreResult, Status, failure, longest_timeout_s
from tests import virtual_time
from tests.fake_transport import FakeTransport
from tests.virtual_time import in_virtual_time

RIGHT = ScoreResult(status=Status.OK, score=1.0)
OVERLOADED = failure(Status.OVERLOADED, "full")
LOST = ServiceUnavailableError("lost")
TOO_LARGE = ServiceUnavailableError("too large", status_code=413)


class Scripted(FakeTransport):
    """A transport whose n-th call does what the script's n-th entry says, then answers."""

    def __init__(self, *script: Exception | dict[str, ScoreResult], takes_s: float = 0.0) -> None:
        self._script = list(script)
        self._takes_s = takes_s
        self.asked: list[list[Any]] = []

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        self.asked.append([body["id"] for body in requests])
        self.last = requests
        await asyncio.sleep(self._takes_s)
        now = self._script.pop(0) if self._script else {}
        if isinstance(now, Exception):
            raise now
        return [
            now.get(body["id"], RIGHT).model_copy(update={"id": body["id"]}) for body in requests
        ]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_backoff_s", lambda attempt: 0.01)


pytestmark = pytest.mark.usefixtures("quick")


def bodies(*ids: str, timeout_s: Any = 5.0) -> list[dict[str, Any]]:
    return [{"id": one, "response": "18", "reference": "18", "timeout_s": timeout_s} for one in ids]


def batch(transport: Any, tickets: Sequence[Ticket], deliver: Deliver[ScoreResult]) -> Any:
    return Batch(Endpoint(transport), tickets, deliver, transport.ascore_batch, failed_score)


async def ask(
    transport: Any, asked: list[dict[str, Any]], attempts: int | None = None
) -> tuple[list[tuple[str | None, str]], int]:
    """Each result's id and status, in order, and how many requests were retried."""
    results: dict[Ticket, ScoreResult] = {}
    retried: list[int] = []
    tickets = list(map(Ticket, asked))
    await batch(transport, tickets, results.update).run(attempts, retried.append)
    ordered = [results[ticket] for ticket in tickets]
    return [(r.id, r.status.value) for r in ordered], sum(retried)


@in_virtual_time
async def test_what_is_final_is_delivered_while_the_rest_is_asked_again() -> None:
    transport = Scripted({"b": OVERLOADED, "c": OVERLOADED}, {"c": OVERLOADED})
    delivered: list[tuple[list[tuple[str, str]], int]] = []

    def deliver(results: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        statuses = [(ticket.body["id"], result.status.value) for ticket, result in results]
        delivered.append((statuses, len(transport.asked)))

    await batch(transport, list(map(Ticket, bodies("a", "b", "c"))), deliver).run(2, lambda n: None)
    assert delivered == [([("a", "ok")], 1), ([("b", "ok")], 2), ([("c", "overloaded")], 2)]
    assert transport.asked == [["a", "b", "c"], ["b", "c"]]


@in_virtual_time
async def test_what_its_caller_withdrew_is_not_asked_again() -> None:
    transport = Scripted({"a": OVERLOADED, "b": OVERLOADED})
    delivered: dict[Ticket, ScoreResult] = {}
    tickets = list(map(Ticket, bodies("a", "b")))
    tickets[0].gone = True
    await batch(transport, tickets, delivered.update).run(None, lambda n: None)
    assert transport.asked == [["a", "b"], ["b"]]
    assert set(delivered) == {tickets[1]}


@pytest.mark.parametrize(
    ("fault", "status", "attempts"),
    [
        *((ServiceUnavailableError("x", status_code=code), "ok", 2) for code in (None, 429, 503)),
        *((ServiceUnavailableError("x", status_code=code), "invalid", 1) for code in (401, 404)),
        ({"a": failure(Status.ERROR, "x")}, "ok", 2),
        ({"a": OVERLOADED}, "ok", 2),
        ({"a": failure(Status.INVALID, "x")}, "invalid", 1),
        ({"a": failure(Status.UNPARSEABLE, "x")}, "unparseable", 1),
        ({"a": failure(Status.TRUNCATED, "x")}, "truncated", 1),
        ({"a": failure(Status.TIMEOUT, "x")}, "timeout", 1),
    ],
)
@in_virtual_time
async def test_what_another_attempt_may_better_is_asked_again(
    fault: Any, status: str, attempts: int
) -> None:
    transport = Scripted(fault)
    assert await ask(transport, bodies("a")) == ([("a", status)], attempts - 1)
    assert len(transport.asked) == attempts


@in_virtual_time
async def test_a_service_that_is_away_is_asked_until_the_deadline_or_the_last_attempt() -> None:
    for away, attempts, asked, status in ((40, None, 41, "ok"), (99, 3, 3, "error")):
        transport = Scripted(*[LOST] * away)
        results, _ = await ask(transport, bodies("a", timeout_s=30.0), attempts)
        assert (results, len(transport.asked)) == ([("a", status)], asked)
    began = time.monotonic()
    transport = Scripted(*[LOST] * 99)
    assert (await ask(transport, bodies("a", timeout_s=0.1)))[0] == [("a", "error")]
    assert time.monotonic() - began < 1
    assert 0 < transport.last[0]["timeout_s"] < 0.1


@in_virtual_time
async def test_a_batch_too_large_together_is_split_within_its_deadline() -> None:
    transport = Scripted(TOO_LARGE, TOO_LARGE)
    results, _ = await ask(transport, bodies("a", "b", "c"))
    assert results == [("a", "invalid"), ("b", "ok"), ("c", "ok")]
    assert transport.asked == [["a", "b", "c"], ["a"], ["b", "c"]]

    began, slow = time.monotonic(), Scripted(*[TOO_LARGE] * 9, takes_s=0.3)
    results, _ = await ask(slow, bodies(*"abcdefgh", timeout_s=0.2))
    assert time.monotonic() - began < 0.5
    assert results == [(name, "timeout") for name in "abcdefgh"]


@in_virtual_time
async def test_a_request_does_not_wait_for_the_longer_deadline_of_one_it_travels_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "SERVICE_GRACE_S", 0.02)
    delivered: list[tuple[str | None, str, float]] = []
    began = time.monotonic()

    def deliver(results: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        took_s = round(time.monotonic() - began, 2)
        delivered.extend((result.id, result.status.value, took_s) for _, result in results)

    asked = [*bodies("a", timeout_s=0.05), *bodies("b", timeout_s=30.0)]
    tickets = list(map(Ticket, asked))
    await batch(Scripted(takes_s=2.0), tickets, deliver).run(None, lambda n: None)
    assert delivered == [("a", "timeout", 0.07), ("b", "ok", 2.0)]


@pytest.mark.parametrize(
    ("shed", "timeout_s", "results", "took_s"),
    [
        (ServiceUnavailableError("x", status_code=503, retry_after_s=0.3), 5.0, "ok", 0.3),
        ({"a": failure(Status.OVERLOADED, "x", details={"retry_after_s": 0.3})}, 5.0, "ok", 0.3),
        (ServiceUnavailableError("x", status_code=503, retry_after_s=30), 1.0, "error", 0.0),
        ({"a": failure(Status.OVERLOADED, "x", details={"retry_after_s": 1e300})}, 5.0,
         "overloaded", 0.0),
    ],
)  # fmt: skip
@in_virtual_time
async def test_a_pause_that_the_service_asks_for_is_kept_unless_it_outlasts_the_deadline(
    shed: Any, timeout_s: float, results: str, took_s: float
) -> None:
    began = time.monotonic()
    found, _ = await ask(Scripted(shed), bodies("a", timeout_s=timeout_s))
    assert found == [("a", results)]
    assert time.monotonic() - began == pytest.approx(took_s)


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


class Fated(FakeTransport):
    """A transport whose n-th call does what the script's n-th entry says, the last from then on."""

    def __init__(self, script: Sequence[Attempt]) -> None:
        self._script = list(script)
        self._calls = 0
        self.asked: list[tuple[float, list[str]]] = []
        self.final: set[str] = set()
        self.split: set[str] = set()

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        ids = [body["id"] for body in requests]
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
        outcomes = zip(ids, list(attempt.statuses) * len(ids), strict=False)
        results = [_result(request, status, attempt.pause_s) for request, status in outcomes]
        self.final |= {str(r.id) for r in results if r.status in NEVER_AGAIN}
        return results


def _result(request: str, status: Status, pause_s: float | None) -> ScoreResult:
    if status is Status.OK:
        return ScoreResult(id=request, status=status, score=1.0)
    return failure(status, "why", id=request, details={"retry_after_s": pause_s})


@given(
    st.lists(
        st.builds(
            Attempt,
            code=st.sampled_from(CODES),
            faulty=st.booleans(),
            statuses=st.lists(st.sampled_from(list(Status)), min_size=1, max_size=4),
            takes_s=st.sampled_from([0.0, 0.01, 0.3, 2.0, 9.0]),
            pause_s=st.sampled_from([None, 0.1, 3.0, 30.0]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.sampled_from([0.05, 0.5, 3.0, 60.0, None, "soon", -1]), min_size=1, max_size=5),
)
def test_every_request_ends_once_in_its_place_and_in_time(
    script: list[Attempt], timeouts: list[Any]
) -> None:
    asked = [
        {"id": str(n), "response": "18", "timeout_s": timeout} for n, timeout in enumerate(timeouts)
    ]
    transport = Fated(script)
    tickets = list(map(Ticket, asked))
    delivered: Counter[Ticket] = Counter()
    results: dict[Ticket, ScoreResult] = {}
    attempts: Counter[str] = Counter()

    def deliver(final: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        delivered.update(ticket for ticket, _ in final)
        results.update(final)

    async def run() -> None:
        began = time.monotonic()
        await batch(transport, tickets, deliver).run(MAX_ATTEMPTS, lambda n: None)
        for moment, ids in transport.asked:  # from here on, a probe may ask, too
            attempts.update(set(ids) - transport.split)
            for one in set(ids) - transport.split:
                assert moment - began <= longest_timeout_s([asked[int(one)]]) + 1e-6

    virtual_time.run(run)
    assert {ticket: result.id for ticket, result in results.items()} == {
        ticket: ticket.body["id"] for ticket in tickets
    }
    assert delivered == Counter(tickets)
    assert max(attempts.values(), default=0) <= MAX_ATTEMPTS
