"""A service that goes away and comes back, as the shared client sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reward_serve.client import Client, ServiceUnavailableError, connect, retrying
from reward_serve.client.transport import encoded
from reward_serve.schema import GroupResult, ScoreResult, Status, failure, group_failure
from tests.fake_service import dead_url
from tests.fake_transport import FakeTransport

DEADLINE_S = 0.4
STEPS = 50
ASKED = {"response": "#### 18", "reference": "18"}


class Service(FakeTransport):
    """A transport whose answer a test changes."""

    def __init__(self, answer: ScoreResult | Exception | None = None) -> None:
        self.answer = answer or ScoreResult(status=Status.OK, score=1.0)
        self.batches: list[Sequence[Any]] = []

    @property
    def asked(self) -> list[Any]:
        return [each for batch in self.batches for each in batch]

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        self.batches.append(requests)
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer] * len(requests)


AWAY = ServiceUnavailableError("ConnectError")
LOST = failure(Status.ERROR, "lost", details={"unanswered": True})
LATE = failure(Status.TIMEOUT, "late", details={"unanswered": True})
BACK = ScoreResult(status=Status.OK, score=1.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "PROBE_EVERY_S", 0.05)


def client_of(service: Any, **settings: Any) -> Client:
    return Client(service, **{"on_failure": "none", "timeout_s": DEADLINE_S, **settings})


def announced(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of outages."""
    texts = [record.getMessage() for record in caplog.records]
    return ["away" if "does not answer" in text else "back" for text in texts
            if "does not answer" in text or "answers again" in text]  # fmt: skip


def until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def scores_again(client: Client) -> bool:
    return client.score(ASKED).status is Status.OK


def numbered(n: int) -> dict[str, Any]:
    return {**ASKED, "id": str(n)}


@pytest.mark.parametrize("silence", [AWAY, LOST, LATE], ids=str)
def test_many_steps_without_an_answer_cost_one_deadline(
    silence: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of(service := Service(silence))
    steps = [client.score_batch([numbered(0)] * 4)]
    until(lambda: not client._endpoint.up)
    steps += [client.score_batch([numbered(step)] * 4) for step in range(1, STEPS)]

    assert {result.score for step in steps for result in step} == {None}
    assert {result.status for step in steps[1:] for result in step} == {Status.ERROR}
    assert {each["id"] for batch in service.batches if len(batch) > 1 for each in batch} == {"0"}
    assert "so nothing is sent" in str(steps[-1][0].reason)
    service.answer = BACK
    until(lambda: scores_again(client))
    assert announced(caplog) == ["away", "back"]


def test_groups_alone_do_not_close_the_circuit_of_an_engine_that_hangs() -> None:
    class Hung(Service):
        """Refuses a group as a single request, which needs no engine."""

        hangs = True

        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            return [failure(Status.INVALID, "response: Field required")] * len(requests)

        async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
            return group_failure(LATE, 2) if self.hangs else GroupResult.of([BACK] * 2)

    client = client_of(service := Hung())
    group = {"question": "?", "responses": ["a", "b"]}
    assert client.score_group(group).status is Status.TIMEOUT
    until(lambda: not client._endpoint.up)
    time.sleep(5 * retrying.PROBE_EVERY_S)
    assert not client._endpoint.up
    service.hangs = False
    until(lambda: client.score_group(group).status is Status.OK)


def test_a_request_that_fails_by_itself_is_not_the_only_one_that_is_probed_with() -> None:
    class Poisoned(Service):
        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            return [LOST if "poison" in each else BACK for each in requests]

    client = client_of(Poisoned())
    poison = {**ASKED, "poison": True}
    assert client.score(poison).status is Status.ERROR
    until(lambda: not client._endpoint.up)  # so far, every answer was an error
    until(lambda: scores_again(client))


def test_a_request_that_cannot_be_sent_neither_opens_nor_closes_the_circuit() -> None:
    class Encoding(Service):
        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            encoded(requests, requests)
            return await super().ascore_batch(requests)

    client = client_of(service := Encoding())
    odd = {**ASKED, "metadata": object()}
    assert client.score(odd).status is Status.INVALID
    assert not client._endpoint.in_doubt
    service.answer = AWAY
    client.score(ASKED)
    until(lambda: not client._endpoint.up)
    assert client.score(odd).status is Status.ERROR
    time.sleep(3 * retrying.PROBE_EVERY_S)
    assert not client._endpoint.up


def test_what_is_under_way_as_an_outage_is_found_does_not_wait_for_its_own_deadline() -> None:
    client = client_of(service := Service(AWAY), timeout_s=300)
    with ThreadPoolExecutor(2) as pool:
        began = time.monotonic()
        long = pool.submit(client.score, ASKED)
        until(lambda: bool(service.asked))
        short = pool.submit(client.score, {**ASKED, "timeout_s": DEADLINE_S})
        results = [long.result(), short.result()]

    assert time.monotonic() - began < 150
    assert {result.status for result in results} == {Status.ERROR}


async def test_a_model_without_an_answer_closes_no_other(caplog: pytest.LogCaptureFixture) -> None:
    class OneDead(Service):
        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            self.batches.append(requests)
            return [LATE if each.get("model") == "dead" else BACK for each in requests]

    client = client_of(service := OneDead(), max_attempts=1)
    dead = {**ASKED, "model": "dead"}
    for _ in range(3):
        both = await client.ascore_batch([dead, {**ASKED, "model": "live"}, ASKED])
        assert [each.score for each in both] == [None, 1.0, 1.0]
        await asyncio.sleep(0)
    assert "model 'dead'" in str(both[0].reason)
    assert sum(each.get("model") == "live" for each in service.asked) == 3
    assert announced(caplog) == ["away"]


@pytest.mark.parametrize(
    "answer",
    [
        *(failure(status, "why") for status in Status if status is not Status.OK),
        ServiceUnavailableError("wrong key", status_code=401),
        ServiceUnavailableError("the key's own limit", status_code=429),
        ServiceUnavailableError("full", status_code=503, retry_after_s=0.01),
    ],
)  # fmt: skip
async def test_a_refusal_or_no_verdict_is_an_answer(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(answer)
    client = client_of(service, max_attempts=1)
    for _ in range(3):
        await client.ascore(ASKED)

    assert len(service.asked) == 3
    assert "away" not in announced(caplog)


async def test_a_request_that_always_fails_does_not_condemn_the_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Choosy(Service):
        async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
            self.batches.append(requests)
            lost = failure(Status.ERROR, "lost")
            return [lost if each["reference"] == "x" else BACK for each in requests]

    client = client_of(Choosy(), max_attempts=1)
    assert (await client.ascore(ASKED)).status is Status.OK
    await client.ascore({**ASKED, "reference": "x"})
    await asyncio.to_thread(until, lambda: scores_again(client))

    assert "away" not in announced(caplog)


def test_clients_of_one_target_learn_of_an_outage_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = dead_url()
    one, other = (connect(url=url, on_failure=f, timeout_s=DEADLINE_S) for f in ("none", "rule"))
    one.score(ASKED)

    assert other.score(ASKED).source == "fallback"
    assert other.counters.snapshot()["retried"] == 0
    until(lambda: bool(announced(caplog)))
    assert announced(caplog) == ["away"]
