"""A service that goes away and comes back, as its clients see it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from reward_serve.client import Client, ServiceUnavailableError, connect
from reward_serve.client.retrying import PROBE_EVERY_S
from reward_serve.client.transport import SERVICE_GRACE_S
from reward_serve.schema import GroupResult, ScoreResult, Status, failure, group_failure
from tests.fake_service import dead_url
from tests.fake_transport import FakeTransport
from tests.virtual_time import in_virtual_time

DEADLINE_S = 60.0
ASKED = {"response": "#### 18", "reference": "18"}
GROUP = {"question": "?", "responses": ["a", "b"]}
BACK = ScoreResult(status=Status.OK, score=1.0)
AWAY = ServiceUnavailableError("ConnectError")
HUNG = TimeoutError()
LOST = failure(Status.ERROR, "lost", details={"unanswered": True})
LATE = failure(Status.TIMEOUT, "late", details={"unanswered": True})

Answer = ScoreResult | Exception


class Service(FakeTransport):
    """Its answer to each request is what ``answer`` says of it, or ``answer`` itself."""

    def __init__(self, answer: Answer | Callable[[Any], Answer], takes_s: float = 0.0) -> None:
        self.answer, self.takes_s = answer, takes_s
        self.batches: list[Sequence[Any]] = []

    async def ascore_batch(self, requests: Sequence[Any]) -> list[ScoreResult]:
        self.batches.append(requests)
        await asyncio.sleep(self.takes_s)
        answers = [self.answer(r) if callable(self.answer) else self.answer for r in requests]
        for answer in answers:
            if answer is HUNG:
                await asyncio.sleep(DEADLINE_S + SERVICE_GRACE_S)
            if isinstance(answer, Exception):
                raise answer
        return [answer for answer in answers if isinstance(answer, ScoreResult)]

    @property
    def asked(self) -> list[Any]:
        return [request for batch in self.batches for request in batch]


def client_of(service: Service, **settings: Any) -> Client:
    return Client(service, on_failure="none", **settings)


def announced(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of outages."""
    texts = [record.getMessage() for record in caplog.records]
    return ["away" if "does not answer" in text else "back" for text in texts
            if "does not answer" in text or "answers again" in text]  # fmt: skip


async def probed() -> None:
    await asyncio.sleep(3 * PROBE_EVERY_S)


@pytest.mark.parametrize("silence", [AWAY, HUNG, LOST, LATE], ids=repr)
@in_virtual_time
async def test_outages_cost_one_deadline(silence: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(service := Service(silence))
    began = time.monotonic()
    steps = []
    for step in range(50):
        steps.append(await client.ascore_batch([{**ASKED, "id": str(step)}] * 4))
        await probed()
    waited_s = time.monotonic() - began - 50 * 3 * PROBE_EVERY_S

    assert waited_s < DEADLINE_S + SERVICE_GRACE_S + 1
    assert {result.score for step in steps for result in step} == {None}
    assert {result.status for step in steps[1:] for result in step} == {Status.ERROR}
    assert {item["id"] for batch in service.batches if len(batch) > 1 for item in batch} == {"0"}
    assert "so nothing is sent" in str(steps[-1][0].reason)
    service.answer = BACK
    await asyncio.sleep(DEADLINE_S + SERVICE_GRACE_S + PROBE_EVERY_S)
    assert (await client.ascore(ASKED)).score == 1.0
    assert announced(caplog) == ["away", "back"]


@in_virtual_time
async def test_groups_alone_do_not_close_the_circuit_of_an_engine_that_hangs() -> None:
    class Hung(Service):
        """Refuses a group as a single request, which needs no engine."""

        hangs = True

        async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
            return group_failure(LATE, 2) if self.hangs else GroupResult.of([BACK] * 2)

    client = client_of(service := Hung(failure(Status.INVALID, "response: Field required")))
    assert (await client.ascore_group(GROUP)).status is Status.TIMEOUT
    await probed()
    reply = await client.ascore_group(GROUP)
    assert [result.status for result in reply.results] == [Status.ERROR] * 2
    assert "so nothing is sent" in str(reply.reason)
    service.hangs = False
    await probed()
    assert (await client.ascore_group(GROUP)).status is Status.OK


@in_virtual_time
async def test_a_request_that_fails_by_itself_is_not_the_only_one_that_is_probed_with() -> None:
    client = client_of(Service(lambda request: LOST if "poison" in request else BACK))
    assert (await client.ascore({**ASKED, "poison": True})).status is Status.ERROR
    await probed()  # so far, every answer was an error
    assert (await client.ascore(ASKED)).status is Status.ERROR
    await probed()
    assert (await client.ascore(ASKED)).status is Status.OK


@in_virtual_time
async def test_a_probe_joins_no_group() -> None:
    client = client_of(service := Service(AWAY), max_attempts=1)
    await client.ascore({**ASKED, "group": "g", "group_size": 2})
    await probed()
    sizes = [request.get("group_size") for request in service.asked]
    assert sizes[0] == 2 and set(sizes[1:]) == {None}  # it would wait for the other member


@in_virtual_time
async def test_what_is_under_way_as_an_outage_is_found_does_not_wait_for_its_own_deadline() -> None:
    client, began = client_of(Service(AWAY)), time.monotonic()
    long = asyncio.ensure_future(client.ascore({**ASKED, "timeout_s": 3000}))
    await asyncio.sleep(0.1)  # so that they are two batches
    results = [await client.ascore({**ASKED, "timeout_s": 1}), await long]
    assert {result.status for result in results} == {Status.ERROR}
    assert time.monotonic() - began < 10


@in_virtual_time
async def test_a_model_without_an_answer_closes_no_other() -> None:
    service = Service(lambda request: LATE if request.get("model") == "dead" else BACK)
    client = client_of(service, max_attempts=1)
    dead = {**ASKED, "model": "dead"}
    for _ in range(3):
        both = await client.ascore_batch([dead, {**ASKED, "model": "live"}, ASKED])
        assert [result.score for result in both] == [None, 1.0, 1.0]
        await probed()
    assert "model 'dead': no answer" in str(both[0].reason)


@pytest.mark.parametrize(
    "answer",
    [
        *(failure(status, "why") for status in Status if status is not Status.OK),
        ServiceUnavailableError("wrong key", status_code=401),
        ServiceUnavailableError("the key's own limit", status_code=429),
        ServiceUnavailableError("full", status_code=503, retry_after_s=0.01),
    ],
)
@in_virtual_time
async def test_a_refusal_is_an_answer(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(service := Service(answer), max_attempts=1)
    for _ in range(3):
        await client.ascore(ASKED)
        await probed()
    assert len(service.asked) == 3
    assert announced(caplog) == []


@in_virtual_time
async def test_a_hopeless_request_condemns_no_service(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(lambda request: LOST if "poison" in request else BACK)
    client = client_of(service)
    for service.takes_s in (0.0, 5.0):  # when it is busy, a probe would not be answered soon
        lost = asyncio.ensure_future(client.ascore({**ASKED, "poison": True}))
        await asyncio.sleep(1)
        while not lost.done():
            assert (await client.ascore(ASKED)).status is Status.OK
            await asyncio.sleep(1)
        await probed()
        assert (await client.ascore(ASKED)).status is Status.OK
    assert announced(caplog) == []


def test_clients_of_one_url_learn_of_an_outage_together() -> None:
    url = dead_url()
    client, other = (connect(url=url, on_failure=choice) for choice in ("none", "rule"))
    assert client is not other and client._endpoint is other._endpoint
