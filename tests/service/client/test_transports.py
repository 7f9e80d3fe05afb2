from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reward_serve.client import Client, transport
from reward_serve.client.handle import HandleTransport, RewardClient
from reward_serve.client.http import HttpRewardClient, HttpTransport
from reward_serve.client.transport import (
    ServiceUnavailableError,
    Transport,
    answer_timeout_s,
    as_dict,
    on_own_loop,
)
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure
from reward_serve.version import __version__
from tests.fake_service import FakeService, Reply, dead_url

RIGHT = {"response": "#### 18", "reference": "18"}


@pytest.fixture
def client(service: FakeService) -> Iterator[HttpRewardClient]:
    with HttpRewardClient(service.url) as client:
        yield client


def ask(transport: Transport, *requests: Any) -> list[ScoreResult]:
    """One call, on an event loop of its own; the connections of HTTP are closed after it."""

    async def awaited() -> list[ScoreResult]:
        try:
            return await transport.ascore_batch(requests)
        finally:
            if isinstance(transport, HttpTransport):
                await on_own_loop(transport.aclose())

    return asyncio.run(awaited())


def test_a_result_is_parsed(service: FakeService) -> None:
    client = HttpTransport(service.url)
    (result,) = ask(client, {**RIGHT, "id": "a", "metadata": {"step": 3}})
    assert (result.score, result.status, result.source) == (1.0, Status.OK, "rule")
    assert (result.id, result.metadata, result.model) == ("a", {"step": 3}, "rule")


def test_a_batch_keeps_its_order(service: FakeService) -> None:
    requests = [{"response": f"#### {n}", "reference": "2", "id": str(n)} for n in range(4)]
    results = ask(HttpTransport(service.url), *requests)
    assert [result.id for result in results] == ["0", "1", "2", "3"]
    assert [result.score for result in results] == [0.0, 0.0, 1.0, 0.0]
    assert len(service.calls) == 1


def test_a_batch_of_none_is_none(service: FakeService) -> None:
    assert ask(HttpTransport(service.url)) == []


def test_a_request_may_be_of_the_contracts_class(client: HttpRewardClient) -> None:
    request = ScoreRequest(response="#### 18", reference=["17", "18"], id="a")
    result = client.score(request)
    assert (result.score, result.id) == (1.0, "a")


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_a_failure_is_a_typed_result(service: FakeService, status: Status) -> None:
    result = failure(status, "why", id="a").model_dump(mode="json")
    service.replies["/v1/score/batch"] = Reply({"results": [result]})
    (failed,) = ask(HttpTransport(service.url), {**RIGHT, "id": "a"})
    assert (failed.status, failed.score, failed.reason, failed.id) == (status, None, "why", "a")


def test_a_services_own_refusal_is_a_typed_result(client: HttpRewardClient) -> None:
    result = client.score({"response": 18, "id": "a"})
    assert (result.status, result.id) == (Status.INVALID, "a")
    assert result.reason is not None
    assert result.reason.startswith("response: ")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"response": "\ud800"}, id="lone surrogate"),
        pytest.param({"response": float("nan")}, id="nan for a response"),
        pytest.param({"timeout_s": float("inf")}, id="endless"),
        pytest.param({"metadata": {"a": object()}}, id="not json"),
    ],
)
def test_a_request_that_is_not_json_is_that_items_fault(
    service: FakeService, fields: dict[str, Any]
) -> None:
    results = ask(HttpTransport(service.url), {**RIGHT, **fields}, RIGHT)
    assert [result.status for result in results] == [Status.INVALID, Status.OK]
    assert str(results[0].reason).startswith(f"{next(iter(fields))}: ")


def test_a_service_that_starts_again_is_asked_again(service: FakeService) -> None:
    with HttpRewardClient(service.url, timeout_s=20) as client:
        assert client.score(RIGHT).score == 1.0
        not_deployed = Reply(b"Path '/v1/score/batch' not found", code=404)
        service.replies["/v1/score/batch"] = not_deployed
        threading.Timer(0.3, service.replies.clear).start()
        assert client.score(RIGHT).score == 1.0
        assert client.counters.snapshot()["retried"] > 0


def test_a_page_at_the_url_of_no_service_is_not_asked_again(service: FakeService) -> None:
    service.replies["/v1/score/batch"] = Reply(b"Path '/v1/score/batch' not found", code=404)
    with HttpRewardClient(service.url, timeout_s=20) as client:
        result = client.score(RIGHT)
        assert client.counters.snapshot()["retried"] == 0
    assert result.status is Status.INVALID
    assert "HTTP 404, not this service" in str(result.reason)


def test_nobody_at_the_url_is_unavailable() -> None:
    url = dead_url()
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(HttpTransport(url), RIGHT)
    assert str(caught.value).startswith(f"{url}: ConnectError")


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        pytest.param(Reply(b"<html>nginx</html>"), "HTTP 200, not this service", id="page"),
        pytest.param(Reply(b"\xff\xfe"), "HTTP 200, not this service", id="bytes"),
        pytest.param(Reply(b""), "HTTP 200, not this service", id="nothing"),
        pytest.param(Reply([1.0]), "HTTP 200, not this service", id="list"),
        pytest.param(Reply(b"Internal Server Error", 500), "HTTP 500", id="500"),
        pytest.param(Reply({"detail": "wrong key"}, 401), "HTTP 401: wrong key", id="401"),
        pytest.param(Reply({"detail": "too large"}, 413), "HTTP 413: too large", id="413"),
        pytest.param(Reply({}, 502), "HTTP 502: no detail", id="502"),
        pytest.param(
            Reply(b"", 307, {"location": "http://127.0.0.1:1/"}), "HTTP 307", id="redirect"
        ),
    ],
)
def test_an_answer_outside_the_contract_is_unavailable(
    service: FakeService, reply: Reply, found: str
) -> None:
    service.replies["/v1/score/batch"] = reply
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(HttpTransport(service.url), RIGHT)
    assert str(caught.value).startswith(f"{service.url}: {found}")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"results": []}, id="none"),
        pytest.param({"results": [{"status": "ok", "score": 1.0}] * 3}, id="one too many"),
        pytest.param({"results": {"0": {}, "1": {}}}, id="no list"),
        pytest.param({}, id="no results"),
    ],
)
def test_a_batch_answered_in_part_is_unavailable(service: FakeService, content: Any) -> None:
    service.replies["/v1/score/batch"] = Reply(content)
    with pytest.raises(ServiceUnavailableError, match="batch of 2 was not answered") as caught:
        ask(HttpTransport(service.url), RIGHT, RIGHT)
    assert service.url in str(caught.value)


NOT_RESULTS = [
    pytest.param({"score": 1.0}, id="no status"),
    pytest.param({"status": "ok", "score": None}, id="ok without a score"),
    pytest.param({"status": "error", "score": 0.0}, id="a score for a failure"),
    pytest.param({"status": "fine", "score": 1.0}, id="unknown status"),
]


@pytest.mark.parametrize("content", NOT_RESULTS)
def test_an_answer_that_is_no_result_is_unavailable_never_a_score(
    service: FakeService, content: Any
) -> None:
    service.replies["/v1/score/batch"] = Reply({"results": [content]})
    with pytest.raises(ServiceUnavailableError, match="not a result") as caught:
        ask(HttpTransport(service.url), RIGHT)
    assert service.url in str(caught.value)


def test_a_service_that_never_answers_is_unavailable(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "SERVICE_GRACE_S", 0.1)
    done = threading.Event()
    service.before_reply = lambda call: done.wait(10)
    began = time.monotonic()
    with pytest.raises(
        ServiceUnavailableError, match=r"no complete answer within 0\.2 s"
    ) as caught:
        ask(HttpTransport(service.url), {**RIGHT, "timeout_s": 0.1})
    done.set()
    assert service.url in str(caught.value)
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize(
    ("version", "warnings"), [("9.0.0", 1), ("1.0.0", 1), ("0.999.0", 0), (__version__, 0)]
)
def test_another_major_version_is_warned_of_once(
    version: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeService(version) as service, HttpRewardClient(service.url) as client:
        for _ in range(2):
            assert client.score(RIGHT).score == 1.0
            client.score_batch([RIGHT])
            client.models()
    logged = [record for record in caplog.records if record.name == "reward_serve.client.transport"]
    assert len(logged) == warnings
    for record in logged:
        assert record.levelno == logging.WARNING
        assert version in record.getMessage()
        assert __version__ in record.getMessage()


@pytest.mark.parametrize(("key", "header"), [("s3cret", "Bearer s3cret"), (None, None), ("", None)])
def test_the_api_key_is_sent(service: FakeService, key: str | None, header: str | None) -> None:
    ask(HttpTransport(service.url, api_key=key), RIGHT)
    (call,) = service.calls
    assert call.headers.get("authorization") == header


def test_the_api_key_is_never_shown(service: FakeService) -> None:
    transport = HttpTransport(service.url, api_key="s3cret")
    assert "s3cret" not in repr(transport) + repr(HttpRewardClient(service.url, "s3cret"))
    service.replies["/v1/score/batch"] = Reply({"detail": "wrong key"}, 401)
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(transport, RIGHT)
    assert "s3cret" not in repr(caught.value)


def test_an_api_key_read_with_its_lines_end_is_sent_without_it(service: FakeService) -> None:
    (result,) = ask(HttpTransport(service.url, api_key="s3cret\n"), RIGHT)
    assert result.status is Status.OK
    with pytest.raises(ValueError, match="api_key") as caught:
        HttpRewardClient(service.url, api_key="s3\ncret")
    assert "cret" not in str(caught.value)


def test_a_request_without_a_deadline_has_the_clients(service: FakeService) -> None:
    assert HttpRewardClient(service.url, timeout_s=7).score(RIGHT).status is Status.OK
    (call,) = service.calls
    (sent,) = call.body["requests"]
    assert sent == {**RIGHT, "timeout_s": 7, "id": sent["id"]}


@pytest.mark.parametrize(
    ("request_", "sent"),
    [
        pytest.param(RIGHT, {**RIGHT, "timeout_s": 7}, id="none"),
        pytest.param({**RIGHT, "timeout_s": 3}, {**RIGHT, "timeout_s": 3}, id="its own"),
        pytest.param(ScoreRequest(response="a"), {"response": "a", "timeout_s": 7}, id="model"),
        pytest.param(
            ScoreRequest(response="a", timeout_s=60, id="b"),
            {"response": "a", "timeout_s": 60.0, "id": "b"},
            id="model that says the default",
        ),
    ],
)
def test_what_crosses_the_wire_is_what_was_said_and_a_deadline(
    request_: Any, sent: dict[str, Any]
) -> None:
    before = dict(request_)
    assert as_dict(request_, {"timeout_s": 7}) == sent
    assert dict(request_) == before


@pytest.mark.parametrize(
    ("deadlines", "seconds"),
    [([60], 65.0), ([1, 30.5, 2], 35.5), ([], 65.0), ([None], 65.0), (["soon", 2], 7.0)],
)
def test_the_client_waits_for_the_longest_deadline_and_some_grace(
    deadlines: list[Any], seconds: float
) -> None:
    assert answer_timeout_s([{"timeout_s": timeout_s} for timeout_s in deadlines]) == seconds


def test_one_client_serves_one_event_loop_after_another(
    service: FakeService, client: HttpRewardClient
) -> None:
    async def twice() -> list[float | None]:
        return [(await client.ascore(RIGHT)).score for _ in range(2)]

    assert [asyncio.run(twice()) for _ in range(3)] == [[1.0, 1.0]] * 3
    assert service.connections == 1


def test_one_client_serves_event_loops_in_several_threads(client: HttpRewardClient) -> None:
    together = threading.Barrier(4)

    def work(number: int) -> list[str | None]:
        async def many() -> list[ScoreResult]:
            return await asyncio.gather(
                *(client.ascore({**RIGHT, "id": f"{number} {i}"}) for i in range(4))
            )

        together.wait(30)
        return [result.id for result in asyncio.run(many())]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[f"{n} {i}" for i in range(4)] for n in range(4)]


def test_one_client_serves_sixteen_threads(service: FakeService, client: HttpRewardClient) -> None:
    together = threading.Barrier(16)

    def work(number: int) -> list[str | None]:
        together.wait(30)
        return [client.score({**RIGHT, "id": f"{number} {i}"}).id for i in range(4)]

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(16)))
    assert results == [[f"{n} {i}" for i in range(4)] for n in range(16)]
    assert service.connections <= 64


def test_calls_share_a_connection(service: FakeService, client: HttpRewardClient) -> None:
    for _ in range(5):
        client.score(RIGHT)
    assert service.connections == 1


async def test_a_closed_client_opens_new_connections(service: FakeService) -> None:
    client = HttpRewardClient(service.url)
    for _ in range(2):
        assert (await client.ascore(RIGHT)).score == 1.0
        await client.aclose()
    assert service.connections == 2


def test_the_models_are_listed(client: HttpRewardClient) -> None:
    assert client.models() == [{"name": "rule", "ready": True}]


def test_models_of_nobody_is_unavailable() -> None:
    url = dead_url()
    with HttpRewardClient(url) as client, pytest.raises(ServiceUnavailableError, match=url):
        client.models()


@pytest.mark.parametrize(
    "reply",
    [Reply({"hello": 1}), Reply({"status": "waiting"}, 503)],
    ids=["another service", "no replica"],
)
def test_models_outside_the_contract_is_unavailable(
    service: FakeService, client: HttpRewardClient, reply: Reply
) -> None:
    service.replies["/v1/models"] = reply
    with pytest.raises(ServiceUnavailableError, match=service.url):
        client.models()


@pytest.mark.parametrize(("code", "ready"), [(200, True), (503, False), (500, False)])
def test_ready_is_what_the_service_says(
    service: FakeService, client: HttpRewardClient, code: int, ready: bool
) -> None:
    service.replies["/ready"] = Reply({"status": "?"}, code)
    assert client.is_ready() is ready


def test_nobody_is_not_ready() -> None:
    assert HttpRewardClient(dead_url()).is_ready() is False


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://[::1"])
def test_a_malformed_url_is_unavailable(url: str) -> None:
    with pytest.raises(ServiceUnavailableError):
        HttpRewardClient(url)


class FakeCall:
    """A handle's pending call: an answer, an error, or nothing ever."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.cancelled = False

    def result(self, timeout_s: float) -> Any:
        if self._answer is None:
            raise TimeoutError
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    def __await__(self) -> Generator[Any, None, Any]:
        if self._answer is None:
            yield from asyncio.Event().wait().__await__()
        return self.result(0)

    def cancel(self) -> None:
        self.cancelled = True


class FakeHandle:
    """A deployment's handle, with one answer for every call."""

    app_name, deployment_name = "reward", "judge"

    def __init__(self, answer: Any) -> None:
        self.score_batch = self
        self._answer = answer
        self.asked: list[Any] = []
        self.calls: list[FakeCall] = []
        self.asked_once = asyncio.Event()

    def options(self, **_: object) -> FakeHandle:
        return self

    def remote(self, body: Any) -> FakeCall:
        self.asked_once.set()
        self.asked.append(body)
        answer = self._answer
        if isinstance(answer, list):
            answer = [
                {"id": each.get("id"), **result} for each, result in zip(body, answer, strict=True)
            ]
        self.calls.append(FakeCall(answer))
        return self.calls[-1]


def by_handle(handle: FakeHandle, grace_s: float = 5.0) -> HandleTransport:
    transport = HandleTransport("reward")
    handles: Any = {"judge": handle}
    transport._dispatcher = Dispatcher(handles, grace_s=grace_s)
    return transport


def test_a_handles_answer_is_parsed() -> None:
    handle = FakeHandle([{"status": "ok", "score": 1.0}])
    (result,) = ask(by_handle(handle), {**RIGHT, "id": "a"})
    assert (result.status, result.score, result.id) == (Status.OK, 1.0, "a")
    assert handle.asked == [[{**RIGHT, "id": "a"}]]


def test_an_answer_that_is_no_result_is_not_the_service() -> None:
    with pytest.raises(ServiceUnavailableError, match="app 'reward': its answer is not a result"):
        ask(by_handle(FakeHandle([{"verdict": "yes"}])), RIGHT)


def test_a_lost_replica_is_a_typed_failure() -> None:
    from ray.exceptions import RayActorError

    (result,) = ask(by_handle(FakeHandle(RayActorError())), {**RIGHT, "id": "a"})
    assert (result.status, result.score, result.id) == (Status.ERROR, None, "a")
    assert "RayActorError" in str(result.reason)


def test_a_call_given_up_on_is_cancelled() -> None:
    handle = FakeHandle(None)
    (result,) = ask(by_handle(handle, grace_s=0.0), {**RIGHT, "timeout_s": 0.05})
    assert (result.status, result.score) == (Status.TIMEOUT, None)
    assert [call.cancelled for call in handle.calls] == [True]


async def test_the_clients_own_event_loop_is_not_blocked() -> None:
    handle = FakeHandle([{"status": "ok", "score": 1.0}])
    client = Client(by_handle(handle))

    async def score() -> ScoreResult:
        return client.score(RIGHT)

    with pytest.raises(RuntimeError, match="await the async method"):
        await on_own_loop(score())
    assert handle.calls == []


@pytest.mark.parametrize("way", ["transport", "client"])
async def test_a_caller_who_leaves_cancels_the_call(way: str) -> None:
    handle = FakeHandle(None)
    transport = by_handle(handle)
    asking = transport if way == "transport" else Client(transport)
    task = asyncio.ensure_future(asking.ascore_batch([RIGHT]))
    while not handle.calls:  # noqa: ASYNC110 - the client's loop calls
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while not handle.calls[0].cancelled:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def test_threads_share_one_connection_to_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = HandleTransport("reward")
    client = Client(transport, max_batch=1)
    connected: list[Dispatcher] = []

    def connect() -> Dispatcher:
        time.sleep(0.05)
        handles: Any = {"judge": FakeHandle([{"status": "ok", "score": 1.0}])}
        connected.append(Dispatcher(handles))
        return connected[-1]

    monkeypatch.setattr(transport, "_connect", connect)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(client.score, [RIGHT] * 8))
    assert [result.score for result in results] == [1.0] * 8
    assert len(connected) == 1


def test_a_pickled_client_keeps_its_settings_and_no_handle() -> None:
    client = RewardClient("reward", "judge", 7)
    transport: Any = client._endpoints[0].transport
    transport._dispatcher = threading.Lock()  # what cannot be pickled
    copy = pickle.loads(pickle.dumps(client))
    assert isinstance(copy, RewardClient)
    assert copy._settings == client._settings
    handle = FakeHandle([{"status": "ok", "score": 1.0}])
    transport = copy._endpoints[0].transport
    assert transport._dispatcher is None
    transport._dispatcher = by_handle(handle)._dispatcher
    assert copy.score(RIGHT).score == 1.0
    assert (handle.asked[0][0]["timeout_s"], handle.asked[0][0]["model"]) == (7, "judge")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "http://", "http://127.0.0.1:65536", "http://h:-1", "http://xn--a"]
)
def test_a_url_that_cannot_be_connected_to_is_refused_at_once(url: str) -> None:
    with pytest.raises(ServiceUnavailableError, match="is not a URL"):
        HttpRewardClient(url)


@pytest.mark.parametrize("url", ["http://me:s3cret@host:port", "http://me:s3cret@[::1"])
def test_a_malformed_urls_password_is_never_shown(url: str) -> None:
    with pytest.raises(ServiceUnavailableError, match="is not a URL") as caught:
        HttpRewardClient(url)
    assert "s3cret" not in str(caught.value)


async def test_a_result_is_explained(service: FakeService) -> None:
    asked = {**RIGHT, "id": "a"}
    with HttpRewardClient(service.url) as client:
        explanation = await asyncio.to_thread(client.explain, asked)
        awaited = await client.aexplain(ScoreRequest.model_validate(asked))
        await client.aclose()
    assert (explanation.result.score, explanation.result.id, awaited.result.id) == (1.0, "a", "a")
    assert explanation.rule == awaited.rule


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (Reply({"detail": "server.explain is off"}, 404), "HTTP 404: server.explain is off"),
        (Reply({"status": "ok"}), "is not an explanation: result"),
        (Reply({"result": 1}), "is not an explanation: result"),
        (Reply(b"<html>"), "not this service"),
    ],
)
def test_what_is_no_explanation_is_unavailable(
    service: FakeService, client: HttpRewardClient, reply: Reply, found: str
) -> None:
    service.replies["/v1/explain"] = reply
    with pytest.raises(ServiceUnavailableError, match=found):
        client.explain(RIGHT)


def test_a_refused_explanation_is_a_typed_result(client: HttpRewardClient) -> None:
    for request in ({"response": 18, "id": "a"}, {"response": "\ud800", "id": "a"}):
        explanation = client.explain(request)
        assert (explanation.result.status, explanation.result.id) == (Status.INVALID, "a")
        assert (explanation.rule, explanation.prompts) == (None, [])
