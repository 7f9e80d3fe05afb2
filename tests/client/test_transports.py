from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reward_serve.client import transport
from reward_serve.client.handle import RewardClient
from reward_serve.client.http import HttpRewardClient
from reward_serve.client.transport import ServiceUnavailableError, as_dict, deadline
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure
from reward_serve.version import __version__
from tests.fake_service import FakeService, Reply, free_port

RIGHT = {"response": "#### 18", "reference": "18"}
STYLES = ["score", "score_batch", "ascore", "ascore_batch"]


@pytest.fixture
def client(service: FakeService) -> Iterator[HttpRewardClient]:
    with HttpRewardClient(service.url) as client:
        yield client


def ask(client: HttpRewardClient | RewardClient, style: str, *requests: Any) -> list[ScoreResult]:
    """One call, in any of the four ways; an HTTP client is closed after it."""

    async def awaited() -> list[ScoreResult]:
        try:
            if style == "ascore":
                return [await client.ascore(*requests)]
            return await client.ascore_batch(requests)
        finally:
            if isinstance(client, HttpRewardClient):
                await client.aclose()

    if style.startswith("a"):
        return asyncio.run(awaited())
    try:
        return [client.score(*requests)] if style == "score" else client.score_batch(requests)
    finally:
        if isinstance(client, HttpRewardClient):
            client.close()


every_style = pytest.mark.parametrize("style", STYLES)
either_way = pytest.mark.parametrize("style", ["score", "ascore_batch"])
in_batches = pytest.mark.parametrize("style", ["score_batch", "ascore_batch"])
singly = pytest.mark.parametrize("style", ["score", "ascore"])


@every_style
def test_a_result_is_parsed(service: FakeService, style: str) -> None:
    client = HttpRewardClient(service.url)
    (result,) = ask(client, style, {**RIGHT, "id": "a", "metadata": {"step": 3}})
    assert (result.score, result.status, result.source) == (1.0, Status.OK, "rule")
    assert (result.id, result.metadata, result.model) == ("a", {"step": 3}, "rule")


@in_batches
def test_a_batch_keeps_its_order(service: FakeService, style: str) -> None:
    requests = [{"response": f"#### {n}", "reference": "2", "id": str(n)} for n in range(4)]
    results = ask(HttpRewardClient(service.url), style, *requests)
    assert [result.id for result in results] == ["0", "1", "2", "3"]
    assert [result.score for result in results] == [0.0, 0.0, 1.0, 0.0]
    assert len(service.calls) == 1


@in_batches
def test_a_batch_of_none_is_none(service: FakeService, style: str) -> None:
    assert ask(HttpRewardClient(service.url), style) == []


@either_way
def test_a_request_may_be_of_the_contracts_class(service: FakeService, style: str) -> None:
    request = ScoreRequest(response="#### 18", reference=["17", "18"], id="a")
    (result,) = ask(HttpRewardClient(service.url), style, request)
    assert (result.score, result.id) == (1.0, "a")


@singly
@pytest.mark.parametrize(
    ("status", "code"),
    [(Status.INVALID, 422), (Status.TIMEOUT, 504), (Status.OVERLOADED, 503), (Status.ERROR, 200)],
)
def test_a_single_failure_is_a_typed_result_whatever_its_code(
    service: FakeService, style: str, status: Status, code: int
) -> None:
    result = failure(status, "why", id="a").model_dump(mode="json")
    service.replies["/v1/score"] = Reply({"detail": "why", **result}, code)
    (failed,) = ask(HttpRewardClient(service.url), style, {**RIGHT, "id": "a"})
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
@in_batches
def test_a_request_that_is_not_json_is_that_items_fault(
    service: FakeService, style: str, fields: dict[str, Any]
) -> None:
    results = ask(HttpRewardClient(service.url), style, {**RIGHT, **fields}, RIGHT)
    assert [result.status for result in results] == [Status.INVALID, Status.OK]


@every_style
def test_nobody_at_the_url_is_unavailable(style: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(HttpRewardClient(url), style, RIGHT)
    assert str(caught.value).startswith(f"{url}: ConnectError")


@either_way
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
    service: FakeService, style: str, reply: Reply, found: str
) -> None:
    service.replies = {"/v1/score": reply, "/v1/score/batch": reply}
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(HttpRewardClient(service.url), style, RIGHT)
    assert str(caught.value).startswith(f"{service.url}: {found}")


@in_batches
@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"results": []}, id="none"),
        pytest.param({"results": [{"status": "ok", "score": 1.0}] * 3}, id="one too many"),
        pytest.param({"results": {"0": {}, "1": {}}}, id="no list"),
        pytest.param({}, id="no results"),
    ],
)
def test_a_batch_answered_in_part_is_unavailable(
    service: FakeService, style: str, content: Any
) -> None:
    service.replies["/v1/score/batch"] = Reply(content)
    with pytest.raises(ServiceUnavailableError, match="batch of 2 was not answered") as caught:
        ask(HttpRewardClient(service.url), style, RIGHT, RIGHT)
    assert service.url in str(caught.value)


NOT_RESULTS = [
    pytest.param({"score": 1.0}, id="no status"),
    pytest.param({"status": "ok", "score": None}, id="ok without a score"),
    pytest.param({"status": "error", "score": 0.0}, id="a score for a failure"),
    pytest.param({"status": "fine", "score": 1.0}, id="unknown status"),
]


@either_way
@pytest.mark.parametrize("content", NOT_RESULTS)
def test_an_answer_that_is_no_result_is_unavailable_never_a_score(
    service: FakeService, style: str, content: Any
) -> None:
    service.replies = {
        "/v1/score": Reply(content),
        "/v1/score/batch": Reply({"results": [content]}),
    }
    with pytest.raises(ServiceUnavailableError, match="not a result"):
        ask(HttpRewardClient(service.url), style, RIGHT)


@pytest.mark.parametrize("content", NOT_RESULTS)
def test_an_answer_that_is_no_result_names_the_url(service: FakeService, content: Any) -> None:
    service.replies["/v1/score"] = Reply(content)
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(HttpRewardClient(service.url), "score", RIGHT)
    assert service.url in str(caught.value)


@every_style
def test_a_service_that_never_answers_is_unavailable(
    service: FakeService, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "GRACE_S", 0.1)
    done = threading.Event()
    service.before_reply = lambda call: done.wait(10)
    began = time.monotonic()
    with pytest.raises(
        ServiceUnavailableError, match=r"no complete answer within 0\.2 s"
    ) as caught:
        ask(HttpRewardClient(service.url, timeout_s=0.1), style, RIGHT)
    done.set()
    assert service.url in str(caught.value)
    assert 0.2 <= time.monotonic() - began < 5


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


@either_way
@pytest.mark.parametrize(("key", "header"), [("s3cret", "Bearer s3cret"), (None, None), ("", None)])
def test_the_api_key_is_sent(
    service: FakeService, style: str, key: str | None, header: str | None
) -> None:
    ask(HttpRewardClient(service.url, api_key=key), style, RIGHT)
    (call,) = service.calls
    assert call.headers.get("authorization") == header


@either_way
def test_the_api_key_is_never_shown(service: FakeService, style: str) -> None:
    client = HttpRewardClient(service.url, api_key="s3cret")
    assert "s3cret" not in repr(client)
    refusal = Reply({"detail": "wrong key"}, 401)
    service.replies = {"/v1/score": refusal, "/v1/score/batch": refusal}
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(client, style, RIGHT)
    assert "s3cret" not in repr(caught.value)


@either_way
def test_an_api_key_read_with_its_lines_end_is_sent_without_it(
    service: FakeService, style: str
) -> None:
    (result,) = ask(HttpRewardClient(service.url, api_key="s3cret\n"), style, RIGHT)
    assert result.status is Status.OK
    with pytest.raises(ValueError, match="api_key") as caught:
        HttpRewardClient(service.url, api_key="s3\ncret")
    assert "cret" not in str(caught.value)


@every_style
def test_a_request_without_a_deadline_has_the_clients(service: FakeService, style: str) -> None:
    client = HttpRewardClient(service.url, timeout_s=7)
    (result,) = ask(client, style, RIGHT)
    assert result.status is Status.OK
    (call,) = service.calls
    sent = call.body if style in ("score", "ascore") else call.body["requests"][0]
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
    assert as_dict(request_, 7) == sent
    assert dict(request_) == before


@pytest.mark.parametrize(
    ("deadlines", "seconds"),
    [([60], 65.0), ([1, 30.5, 2], 35.5), ([], 65.0), ([None], 65.0), (["soon", 2], 7.0)],
)
def test_the_client_waits_for_the_longest_deadline_and_some_grace(
    deadlines: list[Any], seconds: float
) -> None:
    assert deadline([{"timeout_s": timeout_s} for timeout_s in deadlines]) == seconds


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_one_client_serves_one_event_loop_after_another(
    service: FakeService, client: HttpRewardClient
) -> None:

    async def twice() -> list[float | None]:
        return [(await client.ascore(RIGHT)).score for _ in range(2)]

    assert [asyncio.run(twice()) for _ in range(3)] == [[1.0, 1.0]] * 3
    assert service.connections == 3
    gc.collect()  # the sockets of loops that ended without aclose()


def test_one_client_serves_event_loops_in_several_threads(service: FakeService) -> None:
    client = HttpRewardClient(service.url)
    together = threading.Barrier(4)

    def work(number: int) -> list[str | None]:
        async def many() -> list[ScoreResult]:
            try:
                return await asyncio.gather(
                    *(client.ascore({**RIGHT, "id": f"{number} {i}"}) for i in range(4))
                )
            finally:
                await client.aclose()

        together.wait(10)
        return [result.id for result in asyncio.run(many())]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[f"{n} {i}" for i in range(4)] for n in range(4)]


def test_one_client_serves_sixteen_threads(service: FakeService, client: HttpRewardClient) -> None:
    together = threading.Barrier(16)

    def work(number: int) -> list[str | None]:
        together.wait(10)
        return [client.score({**RIGHT, "id": f"{number} {i}"}).id for i in range(4)]

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(16)))
    assert results == [[f"{n} {i}" for i in range(4)] for n in range(16)]
    assert service.connections <= 64


def test_calls_share_a_connection(service: FakeService, client: HttpRewardClient) -> None:
    for _ in range(5):
        client.score(RIGHT)
    assert service.connections == 1


async def test_a_closed_loop_pool_is_opened_anew(service: FakeService) -> None:
    client = HttpRewardClient(service.url)
    for _ in range(2):
        assert (await client.ascore(RIGHT)).score == 1.0
        await client.aclose()
    assert service.connections == 2


def test_the_models_are_listed(client: HttpRewardClient) -> None:
    assert client.models() == [{"name": "rule", "ready": True}]


def test_models_of_nobody_is_unavailable() -> None:
    url = f"http://127.0.0.1:{free_port()}"
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
    assert HttpRewardClient(f"http://127.0.0.1:{free_port()}").is_ready() is False


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://[::1"])
def test_a_malformed_url_is_unavailable(url: str) -> None:
    with pytest.raises(ServiceUnavailableError):
        HttpRewardClient(url).score(RIGHT)


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
                {"id": each["id"], **result} for each, result in zip(body, answer, strict=True)
            ]
        self.calls.append(FakeCall(answer))
        return self.calls[-1]


def by_handle(handle: FakeHandle, timeout_s: float = 60.0, grace_s: float = 5.0) -> RewardClient:
    client = RewardClient("reward", "judge", timeout_s)
    handles: Any = {"judge": handle}
    client._dispatcher = Dispatcher(handles, grace_s=grace_s)
    return client


@every_style
def test_a_handles_answer_is_parsed(style: str) -> None:
    handle = FakeHandle([{"status": "ok", "score": 1.0}])
    (result,) = ask(by_handle(handle, 7), style, RIGHT)
    assert (result.status, result.score, result.id) == (Status.OK, 1.0, None)
    ((sent,),) = handle.asked
    assert sent == {**RIGHT, "timeout_s": 7, "id": sent["id"]}


@every_style
def test_an_answer_that_is_no_result_is_not_the_service(style: str) -> None:
    with pytest.raises(ServiceUnavailableError, match="app 'reward': its answer is not a result"):
        ask(by_handle(FakeHandle([{"verdict": "yes"}])), style, RIGHT)


@every_style
def test_a_lost_replica_is_a_typed_failure(style: str) -> None:
    from ray.exceptions import RayActorError

    (result,) = ask(by_handle(FakeHandle(RayActorError())), style, {**RIGHT, "id": "a"})
    assert (result.status, result.score, result.id) == (Status.ERROR, None, "a")
    assert "RayActorError" in str(result.reason)


@every_style
def test_a_call_given_up_on_is_cancelled(style: str) -> None:
    handle = FakeHandle(None)
    (result,) = ask(by_handle(handle, 0.05, grace_s=0.0), style, RIGHT)
    assert (result.status, result.score) == (Status.TIMEOUT, None)
    assert [call.cancelled for call in handle.calls] == [True]


async def test_a_running_event_loop_is_not_blocked() -> None:
    handle = FakeHandle([{"status": "ok", "score": 1.0}])
    with pytest.raises(RuntimeError, match="running event loop"):
        by_handle(handle).score(RIGHT)
    assert handle.calls == []


@pytest.mark.parametrize("style", ["ascore", "ascore_batch"])
async def test_a_caller_who_leaves_cancels_the_call(style: str) -> None:
    handle = FakeHandle(None)
    client = by_handle(handle)
    call = client.ascore(RIGHT) if style == "ascore" else client.ascore_batch([RIGHT])
    task = asyncio.ensure_future(call)
    await asyncio.wait_for(handle.asked_once.wait(), 5)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [call.cancelled for call in handle.calls] == [True]


def test_threads_share_one_connection_to_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    client = RewardClient()
    connected: list[Dispatcher] = []

    def connect() -> Dispatcher:
        time.sleep(0.05)
        handles: Any = {"judge": FakeHandle([{"status": "ok", "score": 1.0}])}
        connected.append(Dispatcher(handles))
        return connected[-1]

    monkeypatch.setattr(client, "_connect", connect)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(client.score, [RIGHT] * 8))
    assert [result.score for result in results] == [1.0] * 8
    assert len(connected) == 1


def test_a_pickled_client_keeps_its_settings_and_no_handle() -> None:
    client = by_handle(FakeHandle(threading.Lock()), 7)  # what cannot be pickled
    copy = pickle.loads(pickle.dumps(client))
    assert isinstance(copy, RewardClient)
    assert (copy._app, copy._model, copy._timeout_s) == ("reward", "judge", 7)
    assert copy._dispatcher is None
    handle = FakeHandle([{"status": "ok", "score": 1.0}])
    copy._dispatcher = by_handle(handle)._dispatcher
    assert copy.score(RIGHT).score == 1.0
    assert handle.asked[0][0]["timeout_s"] == 7


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
        explanation = await asyncio.to_thread(client.explain, asked, tokens=True)
        awaited = await client.aexplain(ScoreRequest.model_validate(asked))
        await client.aclose()
    assert (explanation.result.score, explanation.result.id, awaited.result.id) == (1.0, "a", "a")
    assert explanation.rule == awaited.rule
    assert [call.body["tokens"] for call in service.calls] == [True, False]


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
