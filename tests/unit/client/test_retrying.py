from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from reward_serve.client import retrying
from reward_serve.client.outcomes import Counters
from reward_serve.client.retrying import Endpoint, Retrier, Ticket
from reward_serve.client.transport import Request, ServiceTransport, ServiceUnavailableError
from reward_serve.schema import ScoreResult, Status, failure
from tests.fake_transport import FakeTransport
from tests.virtual_time import in_virtual_time

OVERLOADED = failure(Status.OVERLOADED, "full")
Answer = Callable[[Any], ScoreResult]


class Scripted(FakeTransport):
    """A transport whose n-th call does what the script's n-th entry says, then answers."""

    def __init__(self, *script: Exception | dict[str, ScoreResult]) -> None:
        self._script = list(script)
        self.asked: list[list[Any]] = []

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        bodies: list[Any] = list(requests)
        self.asked.append([body["id"] for body in bodies])
        self.last = bodies
        now = self._script.pop(0) if self._script else {}
        if isinstance(now, Exception):
            raise now
        right = ScoreResult(status=Status.OK, score=1.0)
        return [now.get(body["id"], right).model_copy(update={"id": body["id"]}) for body in bodies]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_backoff_s", lambda attempt: 0.01)


def bodies(*ids: str, timeout_s: Any = 5.0) -> list[dict[str, Any]]:
    return [{"id": one, "response": "18", "reference": "18", "timeout_s": timeout_s} for one in ids]


async def ask(
    transport: ServiceTransport, asked: list[dict[str, Any]], attempts: int | None = None
) -> Any:
    counters = Counters()
    results: dict[Ticket, ScoreResult] = {}
    tickets = list(map(Ticket, asked))
    await Retrier([Endpoint(transport)], counters, attempts).ask(tickets, results.update)
    ordered = [results[ticket] for ticket in tickets]
    return [(r.id, r.status.value) for r in ordered], counters.snapshot()["retried"]


async def test_what_was_shed_alone_is_asked_again() -> None:
    transport = Scripted({"b": OVERLOADED}, {"b": OVERLOADED})
    results, retried = await ask(transport, bodies("a", "b", "c"))
    assert results == [("a", "ok"), ("b", "ok"), ("c", "ok")]
    assert transport.asked == [["a", "b", "c"], ["b"], ["b"]]
    assert retried == 2


async def test_what_is_final_is_delivered_while_the_rest_is_asked_again() -> None:
    transport = Scripted({"b": OVERLOADED, "c": OVERLOADED}, {"c": OVERLOADED})
    delivered: list[tuple[list[tuple[str, str]], int]] = []

    def deliver(results: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        statuses = [(ticket.body["id"], result.status.value) for ticket, result in results]
        delivered.append((statuses, len(transport.asked)))

    tickets = list(map(Ticket, bodies("a", "b", "c")))
    await Retrier([Endpoint(transport)], Counters(), 2).ask(tickets, deliver)
    assert delivered == [([("a", "ok")], 1), ([("b", "ok")], 2), ([("c", "overloaded")], 2)]


async def test_what_its_caller_withdrew_is_not_asked_again() -> None:
    transport = Scripted({"a": OVERLOADED, "b": OVERLOADED, "c": OVERLOADED}, {"c": OVERLOADED})
    delivered: dict[Ticket, ScoreResult] = {}
    tickets = list(map(Ticket, bodies("a", "b", "c")))
    tickets[0].gone = True
    await Retrier([Endpoint(transport)], Counters()).ask(tickets, delivered.update)
    assert transport.asked == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert set(delivered) == set(tickets[1:])


@pytest.mark.parametrize("code", [None, 429, 502, 503])
async def test_a_fault_of_the_way_is_tried_again(code: int | None) -> None:
    transport = Scripted(ServiceUnavailableError("lost", status_code=code))
    results, retried = await ask(transport, bodies("a", "b"))
    assert results == [("a", "ok"), ("b", "ok")]
    assert retried == 2


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
async def test_a_refusal_is_never_tried_again(code: int) -> None:
    transport = Scripted(ServiceUnavailableError("wrong key", status_code=code))
    results, retried = await ask(transport, bodies("a"))
    assert results == [("a", "invalid")]
    assert (len(transport.asked), retried) == (1, 0)


@pytest.mark.parametrize("status", ["invalid", "unparseable", "truncated", "timeout"])
async def test_what_another_attempt_cannot_better_is_returned_at_once(status: str) -> None:
    transport = Scripted({"a": failure(Status(status), "why")})
    results, _ = await ask(transport, bodies("a"))
    assert results == [("a", status)]
    assert len(transport.asked) == 1


async def test_a_service_that_is_away_for_long_is_asked_until_the_deadline() -> None:
    transport = Scripted(*[ServiceUnavailableError("lost") for _ in range(40)])
    results, retried = await ask(transport, bodies("a", timeout_s=30.0))
    assert results == [("a", "ok")]
    assert (len(transport.asked), retried) == (41, 40)


async def test_the_first_failure_of_a_service_that_never_answered_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await ask(Scripted(*[ServiceUnavailableError("lost") for _ in range(4)]), bodies("a"))
    await ask(Scripted({"a": OVERLOADED}), bodies("a"))
    # The probe of the service may have its own line, if it ends in time.
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("asking again")] == [
        "asking again until each request's deadline: lost"
    ]


async def test_after_the_last_attempt_the_failure_is_returned() -> None:
    transport = Scripted(*[ServiceUnavailableError("lost") for _ in range(9)])
    results, retried = await ask(transport, bodies("a"), attempts=3)
    assert results == [("a", "error")]
    assert (len(transport.asked), retried) == (3, 2)


async def test_a_batch_too_large_together_is_split() -> None:
    too_large = ServiceUnavailableError("too large", status_code=413)
    transport = Scripted(too_large, too_large)
    results, _ = await ask(transport, bodies("a", "b", "c"))
    assert results == [("a", "invalid"), ("b", "ok"), ("c", "ok")]
    assert transport.asked == [["a", "b", "c"], ["a"], ["b", "c"]]


async def test_a_request_that_makes_a_batch_unreadable_is_refused_alone() -> None:
    class Reading(Scripted):
        """Refuses a body that is nested too deep, whatever else is in it."""

        async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
            asked: list[Any] = list(requests)
            if any(each["id"] == "deep" for each in asked):
                raise ServiceUnavailableError("body: is nested too deep", status_code=422)
            return await super().ascore_batch(requests)

    results, _ = await ask(Reading(), bodies("a", "b", "deep", "c"))
    assert results == [("a", "ok"), ("b", "ok"), ("deep", "invalid"), ("c", "ok")]


@in_virtual_time
async def test_the_deadline_covers_all_attempts() -> None:
    transport = Scripted(*[ServiceUnavailableError("lost") for _ in range(99)])
    began = time.monotonic()
    results, _ = await ask(transport, bodies("a", timeout_s=0.1))
    assert results == [("a", "error")]
    assert time.monotonic() - began < 1
    assert len(transport.asked) > 1
    assert 0 < transport.last[0]["timeout_s"] < 0.1


@in_virtual_time
async def test_a_request_does_not_wait_for_the_longer_deadline_of_one_it_travels_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "SERVICE_GRACE_S", 0.02)
    release, transport = asyncio.Event(), Scripted()
    answer = transport.ascore_batch

    async def slow(requests: Sequence[Request]) -> list[ScoreResult]:
        await release.wait()
        return await answer(requests)

    monkeypatch.setattr(transport, "ascore_batch", slow)
    delivered: list[tuple[str | None, str]] = []

    def deliver(results: Sequence[tuple[Ticket, ScoreResult]]) -> None:
        delivered.extend((result.id, result.status.value) for _, result in results)

    asked = [*map(Ticket, bodies("a", timeout_s=0.05)), *map(Ticket, bodies("b", timeout_s=30.0))]
    asking = asyncio.create_task(Retrier([Endpoint(transport)], Counters()).ask(asked, deliver))
    await asyncio.sleep(0.2)
    assert delivered == [("a", "timeout")]
    release.set()
    await asking
    assert delivered == [("a", "timeout"), ("b", "ok")]


@in_virtual_time
async def test_a_pause_that_the_service_asks_for_is_kept() -> None:
    transport = Scripted(ServiceUnavailableError("full", status_code=503, retry_after_s=0.3))
    began = time.monotonic()
    results, _ = await ask(transport, bodies("a"))
    assert results == [("a", "ok")]
    assert time.monotonic() - began == pytest.approx(0.3)


@in_virtual_time
async def test_a_pause_that_a_result_asks_for_is_kept() -> None:
    shed = OVERLOADED.model_copy(update={"details": {"retry_after_s": 0.3}})
    began = time.monotonic()
    results, _ = await ask(Scripted({"b": shed}), bodies("a", "b"))
    assert results == [("a", "ok"), ("b", "ok")]
    assert time.monotonic() - began == pytest.approx(0.3)


@in_virtual_time
async def test_a_pause_beyond_the_deadline_is_not_waited_for() -> None:
    transport = Scripted(ServiceUnavailableError("full", status_code=503, retry_after_s=30))
    began = time.monotonic()
    results, _ = await ask(transport, bodies("a", timeout_s=1.0))
    assert results == [("a", "error")]
    assert time.monotonic() - began < 0.5


async def test_a_deadline_that_is_none_is_left_for_the_service_to_refuse() -> None:
    transport = Scripted()
    await ask(transport, bodies("a", timeout_s="soon"))
    assert transport.last[0]["timeout_s"] == "soon"


async def test_a_pause_of_any_length_is_beyond_the_deadline() -> None:
    shed = OVERLOADED.model_copy(update={"details": {"retry_after_s": 10**400}})
    results, _ = await ask(Scripted({"a": shed}), bodies("a"))
    assert results == [("a", "overloaded")]


@in_virtual_time
async def test_halves_of_a_batch_share_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeTransport):
        async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
            await asyncio.sleep(0.3)
            raise ServiceUnavailableError("too large", status_code=413)

    began = time.monotonic()
    results, _ = await ask(Slow(), bodies(*"abcdefgh", timeout_s=0.2))
    assert time.monotonic() - began < 0.5
    assert results == [(name, "timeout") for name in "abcdefgh"]
