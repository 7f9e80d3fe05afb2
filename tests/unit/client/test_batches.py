"""How a client collects requests into batches, and asks until each has a final result."""

import asyncio
import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.client import Client, ServiceUnavailableError, retrying
from reward_serve.client.retrying import WINDOW_S, Ticket, hand_out
from reward_serve.client.transport import SERVICE_GRACE_S
from reward_serve.routing.dispatch import Deliver
from reward_serve.schema import DOWN_S, PAUSE_S, ScoreResult, Status, failure
from tests import virtual_time
from tests.fake_transport import FakeTransport
from tests.virtual_time import in_virtual_time, settle

OVERLOADED = failure(Status.OVERLOADED, "full")
LOST = ServiceUnavailableError("lost")
TOO_LARGE = ServiceUnavailableError("too large", status_code=413)


class Scripted(FakeTransport):
    """Its n-th call takes ``takes_s``, then fails or has results as the n-th of the script says."""

    def __init__(self, *script: Exception | dict[str, ScoreResult], takes_s: float = 0.0) -> None:
        self._script = list(script)
        self._takes_s = takes_s
        self.asked: list[list[str]] = []
        self.left_s: list[float] = []
        self.cancelled = 0

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        self.asked.append([body["id"] for body in requests])
        self.left_s.append(requests[0]["timeout_s"])
        try:
            await asyncio.sleep(self._takes_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        now = self._script.pop(0) if self._script else {}
        if isinstance(now, Exception):
            raise now
        right = ScoreResult(status=Status.OK, score=1.0)
        return [now.get(b["id"], right).model_copy(update={"id": b["id"]}) for b in requests]


def bodies(ids: str, timeout_s: Any = 5.0, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": name, "response": "18", "timeout_s": timeout_s, **fields} for name in ids]


async def ask(
    transport: Any, asked: Sequence[dict[str, Any]], **settings: Any
) -> tuple[list[tuple[str | None, str]], int]:
    """Each result's id and status, in order, and how many requests were retried."""
    client = Client(transport, on_failure="none", **settings)
    results = await client.ascore_batch(asked)
    return [(r.id, r.status.value) for r in results], client.counters.snapshot()["retried"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_backoff_s", lambda attempt: 0.01)


@in_virtual_time
async def test_what_is_asked_together_travels_together_in_order_up_to_the_limits() -> None:
    transport = Scripted()
    await ask(transport, bodies("abcdefghij"), max_batch=4)
    assert transport.asked == [list("abcd"), list("efgh"), list("ij")]

    large = Scripted()
    sizes = zip("abcde", (3, 4, 4, 9, 1), strict=True)  # MiB, of which a batch has at most 8
    await ask(large, [bodies(name, response="x" * (mib * 2**20))[0] for name, mib in sizes])
    assert large.asked == [["a", "b"], ["c"], ["d"], ["e"]]

    named = Scripted()
    models = zip("abcd", ("m", None, "m", ["no name"]), strict=True)
    await ask(named, [bodies(name, model=model)[0] for name, model in models])
    assert named.asked == [["a", "c"], ["b"], ["d"]]


@in_virtual_time
async def test_during_a_batch_others_wait_for_it_together_or_for_the_window() -> None:
    for takes_s, asked in ((WINDOW_S / 2, [["a"], ["b", "c"]]), (1.0, [["a"], ["b"], ["c"]])):
        client, began = Client(transport := Scripted(takes_s=takes_s)), time.monotonic()
        calls = []
        for body in bodies("abc"):
            calls.append(asyncio.ensure_future(client.ascore(body)))
            await settle()
            await asyncio.sleep(0 if takes_s < WINDOW_S else 2 * WINDOW_S)
        await asyncio.gather(*calls)
        assert transport.asked == asked
        assert time.monotonic() - began < 2.5 * takes_s


@in_virtual_time
async def test_a_batch_is_cancelled_when_nobody_waits_for_it_and_not_before() -> None:
    client = Client(transport := Scripted(takes_s=1.0))
    calls = [asyncio.ensure_future(client.ascore(body)) for body in bodies("ab")]
    await settle()
    unsent = asyncio.ensure_future(client.ascore(*bodies("c")))
    await settle()
    for call in (calls[0], unsent):
        call.cancel()
    await asyncio.sleep(2 * WINDOW_S)
    assert (transport.asked, transport.cancelled) == ([["a", "b"]], 0)
    calls[1].cancel()
    await settle()
    assert transport.cancelled == 1


@in_virtual_time
async def test_what_its_caller_withdrew_is_not_asked_again() -> None:
    client = Client(transport := Scripted({"a": OVERLOADED, "b": OVERLOADED}, takes_s=1.0))
    calls = [asyncio.ensure_future(client.ascore(body)) for body in bodies("ab")]
    await settle()
    calls[0].cancel()
    assert (await calls[1]).score == 1.0
    assert transport.asked == [["a", "b"], ["b"]]


def test_a_loop_that_was_closed_meanwhile_is_no_fault() -> None:
    closed = asyncio.new_event_loop()
    ticket, other = Ticket({}, closed), Ticket({})
    closed.close()
    result = ScoreResult(status=Status.OK, score=1.0)
    hand_out([(ticket, result), (other, result)])
    assert other.answer.result(timeout=30) is result


@in_virtual_time
async def test_what_is_final_is_delivered_while_the_rest_is_asked_again() -> None:
    transport = Scripted({"b": OVERLOADED, "c": OVERLOADED}, {"c": OVERLOADED}, takes_s=1.0)
    client = Client(transport, on_failure="none", max_attempts=2)
    delivered = []

    async def call(body: dict[str, Any]) -> None:
        result = await client.ascore(body)
        delivered.append((result.id, result.status.value, len(transport.asked)))

    await asyncio.gather(*map(call, bodies("abc")))
    assert delivered == [("a", "ok", 1), ("b", "ok", 2), ("c", "overloaded", 2)]
    assert transport.asked == [["a", "b", "c"], ["b", "c"]]


class Streamed(Scripted):
    """Delivers each result after as many seconds as its script says; None hangs."""

    def __init__(self, *script: dict[str, tuple[float | None, ScoreResult]]) -> None:
        super().__init__()
        self._streams = list(script)

    async def ascore_each(self, requests: Sequence[Any], deliver: Deliver) -> None:
        self.asked.append([body["id"] for body in requests])
        stream = self._streams.pop(0)

        async def scored(index: int, id: str) -> None:
            takes_s, result = stream[id]
            await (asyncio.Event().wait() if takes_s is None else asyncio.sleep(takes_s))
            deliver([(index, result.model_copy(update={"id": id}))])

        try:
            await asyncio.gather(*(scored(n, body["id"]) for n, body in enumerate(requests)))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


RIGHT = ScoreResult(status=Status.OK, score=1.0)


@in_virtual_time
async def test_what_fails_one_by_one_is_retried_together_each_after_its_pause() -> None:
    later = OVERLOADED.model_copy(update={"details": {PAUSE_S: 5.0}})
    transport = Streamed(
        {"a": (0.0, OVERLOADED), "b": (0.0, OVERLOADED), "c": (0.0, later), "d": (1.0, RIGHT)},
        {"a": (0.1, RIGHT), "b": (0.1, RIGHT)},
        {"c": (0.1, RIGHT)},
    )
    client, began = Client(transport, on_failure="none"), time.monotonic()
    results = await asyncio.gather(*map(client.ascore, bodies("abcd")))
    assert {result.score for result in results} == {1.0}
    assert transport.asked == [list("abcd"), ["a", "b"], ["c"]]
    assert time.monotonic() - began == pytest.approx(5.1)


@in_virtual_time
async def test_a_batch_whose_pause_exceeds_its_deadline_ends_at_once() -> None:
    later = OVERLOADED.model_copy(update={"details": {PAUSE_S: 600.0}})
    client, began = Client(Scripted({"a": later, "b": later}), on_failure="none"), time.monotonic()
    results = await client.ascore_batch(bodies("ab", timeout_s=60.0))
    await settle()
    assert {result.status for result in results} == {Status.OVERLOADED}
    assert (time.monotonic() - began, client._endpoint.batches) == (0.0, set())


class Down(FakeTransport):
    """A service whose endpoint is down at first."""

    def __init__(self, seconds: float) -> None:
        self.began, self.seconds = time.monotonic(), seconds

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        down_s = time.monotonic() - self.began
        down = failure(Status.ERROR, "down", details={DOWN_S: down_s})
        return [RIGHT if down_s >= self.seconds else down] * len(requests)


@pytest.mark.parametrize(
    ("down_s", "asked_s", "score", "ended_s"),
    [
        pytest.param(50.0, 0.0, 1.0, 50.0, id="shorter than the deadline"),
        pytest.param(50.0, 29.0, 1.0, 50.0, id="asked within half of it"),
        pytest.param(900.0, 0.0, None, 60.0, id="one deadline is waited for"),
        pytest.param(900.0, 29.0, None, 60.0, id="one deadline since it began"),
        pytest.param(900.0, 31.0, None, 31.0, id="later ones wait for nothing"),
    ],
)
@in_virtual_time
async def test_an_endpoint_that_is_down_costs_one_deadline_and_then_nothing(
    down_s: float, asked_s: float, score: float | None, ended_s: float
) -> None:
    client, began = Client(Down(down_s), on_failure="none"), time.monotonic()
    await asyncio.sleep(asked_s)
    (result,) = await client.ascore_batch(bodies("a", timeout_s=60.0))
    assert (result.score, result.status is Status.OK) == (score, score is not None)
    assert time.monotonic() - began == pytest.approx(ended_s, abs=8.2)  # and a pause


@in_virtual_time
async def test_a_request_is_retried_while_others_of_its_batch_are_in_progress() -> None:
    transport = Streamed(
        {"a": (0.0, OVERLOADED), "b": (1.0, RIGHT), "c": (None, RIGHT), "d": (2.0, OVERLOADED)},
        {"a": (0.1, RIGHT)},
        {"d": (0.1, RIGHT)},
    )
    client, began, ends = Client(transport, on_failure="none", max_attempts=2), time.monotonic(), {}

    async def call(body: dict[str, Any]) -> None:
        result = await client.ascore(body)
        ends[result.id] = (result.status.value, round(time.monotonic() - began, 1))

    calls = [asyncio.ensure_future(call(body)) for body in bodies("abcd", timeout_s=5.0)]
    await asyncio.sleep(3.0)
    assert ends == {"a": ("ok", 0.1), "b": ("ok", 1.0), "d": ("ok", 2.1)}
    assert transport.asked == [list("abcd"), ["a"], ["d"]]
    await asyncio.gather(*calls)
    assert ends["c"] == ("timeout", 5.0 + SERVICE_GRACE_S)


@in_virtual_time
async def test_a_stream_ends_when_those_who_wait_for_the_rest_have_left() -> None:
    client = Client(transport := Streamed({"a": (None, RIGHT), "b": (1.0, RIGHT)}))
    calls = [asyncio.ensure_future(client.ascore(body)) for body in bodies("ab")]
    await settle()
    calls[0].cancel()
    await calls[1]
    await settle()
    assert transport.cancelled == 1


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
async def test_what_may_get_better_is_asked_again(fault: Any, status: str, attempts: int) -> None:
    transport = Scripted(fault)
    assert await ask(transport, bodies("a")) == ([("a", status)], attempts - 1)
    assert len(transport.asked) == attempts


@in_virtual_time
async def test_a_service_that_is_away_is_asked_until_the_deadline_or_the_last_attempt() -> None:
    for away, attempts, retried, status in ((40, None, 40, "ok"), (99, 3, 2, "error")):
        transport, asked = Scripted(*[LOST] * away), bodies("a", timeout_s=30.0)
        outcome = await ask(transport, asked, max_attempts=attempts)
        assert outcome == ([("a", status)], retried)
    began = time.monotonic()
    transport = Scripted(*[LOST] * 99)
    assert (await ask(transport, bodies("a", timeout_s=0.1)))[0] == [("a", "error")]
    assert time.monotonic() - began < 1
    assert 0 < transport.left_s[1] < 0.1


@in_virtual_time
async def test_a_batch_too_large_together_is_split_within_its_deadline() -> None:
    transport = Scripted(TOO_LARGE, TOO_LARGE)
    results, _ = await ask(transport, bodies("abc"))
    assert results == [("a", "invalid"), ("b", "ok"), ("c", "ok")]
    assert transport.asked == [["a", "b", "c"], ["a"], ["b", "c"]]

    began, slow = time.monotonic(), Scripted(*[TOO_LARGE] * 9, takes_s=0.3)
    results, _ = await ask(slow, bodies("abcdefgh", timeout_s=0.2))
    assert time.monotonic() - began < 0.5
    assert results == [(name, "timeout") for name in "abcdefgh"]


@in_virtual_time
async def test_a_request_does_not_wait_for_the_longer_deadline_of_one_it_travels_with() -> None:
    client, began = Client(Scripted(takes_s=20.0), on_failure="none"), time.monotonic()

    async def call(body: dict[str, Any]) -> tuple[str, float]:
        result = await client.ascore(body)
        return result.status.value, round(time.monotonic() - began, 1)

    asked = [*bodies("a", timeout_s=1), *bodies("b", timeout_s=30)]
    outcomes = await asyncio.gather(*map(call, asked))
    assert outcomes == [("timeout", 1 + SERVICE_GRACE_S), ("ok", 20.0)]


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
    outcomes, _ = await ask(Scripted(shed), bodies("a", timeout_s=timeout_s))
    assert outcomes == [("a", results)]
    assert time.monotonic() - began == pytest.approx(took_s)


MAX_ATTEMPTS = 4
FINAL = set(Status) - {Status.OVERLOADED, Status.ERROR}


Attempt = tuple[Exception | None, Sequence[Status], float]
"""What becomes of one call: a fault or a status for each request, and after how many seconds."""


@dataclass(frozen=True)
class Caller:
    """Asks for one score at a time of the run, and may leave before there is one."""

    at_s: float
    timeout_s: Any
    model: str
    leaves_after_s: float | None

    async def ask(self, client: Client, number: int) -> None:
        await asyncio.sleep(self.at_s)
        body = {"id": str(number), "timeout_s": self.timeout_s, "model": self.model}
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.leaves_after_s):
                result = await client.ascore({"response": "18", **body})
        except TimeoutError:
            return
        deadline_s = self.timeout_s if isinstance(self.timeout_s, float) else 60.0
        assert time.monotonic() - began <= deadline_s + SERVICE_GRACE_S + 2 * WINDOW_S
        assert result.id == str(number)
        assert result.score == (number if result.status is Status.OK else None)


class Fated(FakeTransport):
    """A transport whose n-th call does what the script's n-th entry says, the last from then on."""

    def __init__(self, script: Sequence[Attempt], max_batch: int) -> None:
        self._script = list(script)
        self._max_batch = max_batch
        self._final: set[str] = set()
        self._attempts: Counter[str] = Counter()
        self.faults: list[str] = []

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        ids = [body["id"] for body in requests]
        call = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        fault, statuses, takes_s = call
        is_probe = asyncio.current_task().get_name().startswith("probe")  # type: ignore[union-attr]
        if not is_probe:
            self._check(requests, ids)
        await asyncio.sleep(takes_s)
        if fault is not None:
            if getattr(fault, "status_code", None) in (413, 422):
                self._attempts.subtract(ids)  # split, not retried
            raise fault
        results = [_result(*answer) for answer in zip(ids, cycle(statuses), strict=False)]
        if not is_probe:
            self._final |= {str(r.id) for r in results if r.status in FINAL}
        return results

    def _check(self, requests: Sequence[Any], ids: list[str]) -> None:
        self._attempts.update(ids)
        for what, holds in (
            ("asked again what was final", self._final.isdisjoint(ids)),
            ("several models in a batch", len({body["model"] for body in requests}) == 1),
            ("a request twice in a batch", len(set(ids)) == len(ids)),
            ("a batch too large", len(ids) <= self._max_batch),
            ("too many attempts", max(self._attempts.values()) <= MAX_ATTEMPTS),
        ):
            if not holds:
                self.faults.append(what)


def _result(request: str, status: Status) -> ScoreResult:
    if status is Status.OK:
        return ScoreResult(id=request, status=status, score=float(request))
    return failure(status, "why", id=request, details={"retry_after_s": 0.1})


_faults = st.builds(
    ServiceUnavailableError,
    st.just("lost"),
    status_code=st.sampled_from([None, 401, 404, 413, 422, 429, 500, 503]),
    retry_after_s=st.sampled_from([None, 0.1, 3.0, 30.0]),
)
_attempts = st.tuples(
    st.one_of(st.none(), _faults, st.just(ValueError("a bug"))),
    st.lists(st.sampled_from(list(Status)), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.01, 0.3, 2.0, 9.0]),
)
_callers = st.builds(
    Caller,
    at_s=st.sampled_from([0.0, WINDOW_S / 2, 0.1, 5.0]),
    timeout_s=st.sampled_from([0.05, 0.5, 3.0, 60.0, None, "soon"]),
    model=st.sampled_from(["a", "b"]),
    leaves_after_s=st.sampled_from([None, None, 0.0, 0.01, 1.0]),
)


@given(
    st.lists(_attempts, min_size=1, max_size=6),
    st.lists(_callers, min_size=1, max_size=12),
    st.integers(1, 6),
)
def test_every_caller_gets_the_result_of_its_own_request_in_time(
    script: list[Attempt], callers: list[Caller], max_batch: int
) -> None:
    async def calls() -> None:
        settings: dict[str, Any] = {"max_batch": max_batch, "max_attempts": MAX_ATTEMPTS}
        client = Client(transport, on_failure="none", **settings)
        await asyncio.gather(*(caller.ask(client, n) for n, caller in enumerate(callers)))

    transport = Fated(script, max_batch)
    virtual_time.run(calls)
    assert transport.faults == []


@in_virtual_time
async def test_what_is_asked_again_is_what_was_asked_and_plain() -> None:
    seen: list[Any] = []

    class Recorded(Scripted):
        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            seen.append(pickle.loads(pickle.dumps(requests))[0]["metadata"])
            return await super().ascore_batch(requests)

    counts: Any = defaultdict(lambda: 0, turns=2)  # which cannot be pickled
    asked = asyncio.ensure_future(ask(Recorded(LOST), bodies("a", metadata=counts)))
    await asyncio.sleep(0.005)
    counts["turns"] = 3
    assert await asked == ([("a", "ok")], 1)
    assert seen == [{"turns": 2}] * 2


@in_virtual_time
async def test_a_fault_in_delivering_an_answer_leaves_nobody_waiting() -> None:
    fault = AttributeError("no step yet")
    with patch.object(Client, "_settled", side_effect=fault), pytest.raises(AttributeError):
        await ask(Scripted(takes_s=1000), bodies("a"))
