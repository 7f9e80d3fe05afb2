"""The transport over HTTP, and what its client adds."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reward_serve.client import HttpRewardClient, ServiceUnavailableError, transport
from reward_serve.client.transport import HttpTransport, on_own_loop
from reward_serve.schema import ScoreRequest, ScoreResult, Status
from tests.fake_service import FakeService, Reply, dead_url

RIGHT = {"response": "#### 18", "reference": "18"}
ENDLESS: dict[str, Any] = {}
ENDLESS["a"] = ENDLESS


@pytest.fixture
def client(service: FakeService) -> Iterator[HttpRewardClient]:
    with HttpRewardClient(service.url) as client:
        yield client


def ask(transport: HttpTransport, *requests: Any) -> list[ScoreResult]:
    """One call, on an event loop of its own."""

    async def awaited() -> list[ScoreResult]:
        try:
            return await transport.ascore_batch(requests)
        finally:
            await on_own_loop(transport.aclose())

    return asyncio.run(awaited())


def test_what_crosses_the_wire_is_what_was_said_and_a_deadline(service: FakeService) -> None:
    cases: list[tuple[Any, dict[str, Any]]] = [
        (RIGHT, {**RIGHT, "timeout_s": 7}),
        ({**RIGHT, "timeout_s": 3}, {**RIGHT, "timeout_s": 3}),
        (ScoreRequest(response="a", id="b"), {"response": "a", "id": "b", "timeout_s": 7}),
        (ScoreRequest(response="a", timeout_s=60), {"response": "a", "timeout_s": 60.0}),
    ]
    with HttpRewardClient(service.url, timeout_s=7) as client:
        results = client.score_batch([request for request, _ in cases])
    assert [result.id for result in results] == [None, None, "b", None]
    for sent, (_, expected) in zip(service.calls[0].body["requests"], cases, strict=True):
        assert sent == {"id": sent["id"], **expected}


@pytest.mark.parametrize(
    "fields",
    [
        {"response": 18},
        {"response": "\ud800"},
        {"response": float("nan")},
        {"timeout_s": float("inf")},
        {"metadata": {"a": 1j}},
        {"metadata": ENDLESS},
    ],
    ids=repr,
)
def test_a_refused_request_alone_fails(client: HttpRewardClient, fields: dict[str, Any]) -> None:
    results = client.score_batch([{**RIGHT, **fields, "id": "a"}, RIGHT])
    assert [result.status for result in results] == [Status.INVALID, Status.OK]
    assert str(results[0].reason).startswith(f"{next(iter(fields))}: ")
    assert (results[0].id, results[1].id) == ("a", None)


def test_a_restarted_service_is_asked_again_and_another_page_is_not(service: FakeService) -> None:
    not_deployed = Reply(b"Path '/v1/score/batch' not found", code=404)
    service.replies["/v1/score/batch"] = not_deployed
    with HttpRewardClient(service.url, timeout_s=20) as client:
        result = client.score(RIGHT)
        assert client.counters.snapshot()["retried"] == 0
        assert result.status is Status.INVALID
        assert "HTTP 404, not this service" in str(result.reason)

        service.replies.clear()
        assert client.score(RIGHT).score == 1.0
        lost = iter([not_deployed, Reply({"detail": "starting"}, 503)])

        def fail_twice(call: Any) -> None:
            service.replies.clear()
            if (reply := next(lost, None)) is not None:
                service.replies["/v1/score/batch"] = reply

        service.before_reply = fail_twice
        assert client.score(RIGHT).score == 1.0
        assert client.counters.snapshot()["retried"] == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(b"<html>nginx</html>"), "HTTP 200, not this service"),
        (Reply([1.0]), "HTTP 200, not this service"),
        (Reply(b"Internal Server Error", 500), "HTTP 500"),
        (Reply({"detail": "wrong key"}, 401), "HTTP 401: wrong key"),
        (Reply({"detail": "too large"}, 413), "HTTP 413: too large"),
        (Reply(b"", 307, {"location": "http://127.0.0.1:1/"}), "HTTP 307"),
        (Reply({"results": []}), "a batch of 2 was not answered in full"),
        (Reply({"results": {"0": {}, "1": {}}}), "a batch of 2 was not answered in full"),
        (Reply({"results": [{"score": 1.0}] * 2}), "its answer is not a result: status"),
        (Reply({"results": [{"status": "ok", "score": None}] * 2}), "its answer is not a result"),
        (Reply({"results": [{"status": "error", "score": 0.0}] * 2}), "its answer is not a result"),
        (Reply({"results": [{"status": "ok", "score": 1.0, "id": "b"}] * 2}),
         "answered the request 'a' with the result of 'b'"),
        (Reply({"results": [{"status": "ok", "score": 1.0, "id": None}] * 2}),
         "answered the request 'a' with the result of None"),
    ],
)  # fmt: skip
def test_an_answer_outside_the_contract_is_unavailable_never_a_score(
    service: FakeService, reply: Reply, message: str
) -> None:
    service.replies["/v1/score/batch"] = reply
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(HttpTransport(service.url, "s3cret"), {**RIGHT, "id": "a"}, {**RIGHT, "id": "b"})
    assert str(caught.value).startswith(f"{service.url}: {message}")
    assert "s3cret" not in repr(caught.value)


@pytest.mark.parametrize("last", ["", '{"index": 1, "id"'])
def test_a_broken_stream_is_kept_and_the_rest_asked_again(service: FakeService, last: str) -> None:
    line = '{"index": 0, "id": "a", "status": "ok", "score": 0.5}\n'
    stream = Reply(f"{line}{last}".encode(), headers={"content-type": "application/x-ndjson"})
    service.replies["/v1/score/batch"] = stream
    service.before_reply = lambda call: service.replies.clear() if len(service.calls) > 1 else None
    with HttpRewardClient(service.url) as client:
        results = client.score_batch([{**RIGHT, "id": "a"}, {**RIGHT, "id": "b"}])
    assert [(result.id, result.score) for result in results] == [("a", 0.5), ("b", 1.0)]
    sent = [[request["id"] for request in call.body["requests"]] for call in service.calls]
    assert sent == [["a", "b"], ["b"]]


def test_a_service_that_is_not_there_or_never_answers_is_unavailable(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = dead_url()
    with pytest.raises(ServiceUnavailableError, match=f"{url}: ConnectError"):
        ask(HttpTransport(url), RIGHT)
    monkeypatch.setattr(transport, "SERVICE_GRACE_S", 0.1)
    done = threading.Event()
    service.before_reply = lambda call: done.wait(10)
    with pytest.raises(ServiceUnavailableError, match=r"no complete answer within 0\.2 s"):
        ask(HttpTransport(service.url), {**RIGHT, "timeout_s": 0.1})
    done.set()


@pytest.mark.parametrize(("key", "header"), [("s3cret\n", "Bearer s3cret"), (None, None)])
def test_the_api_key_is_sent(service: FakeService, key: str | None, header: str | None) -> None:
    ask(HttpTransport(service.url, api_key=key), RIGHT)
    (call,) = service.calls
    assert call.headers.get("authorization") == header


def test_an_api_key_that_no_header_carries_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        HttpRewardClient("http://127.0.0.1:1", api_key="s3\ncret")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "http://", "http://127.0.0.1:65536", "http://me:s3cret@host:port",
     "http://me:s3cret@[::1"],
)  # fmt: skip
def test_a_malformed_url_is_refused_at_once_without_its_password(url: str) -> None:
    with pytest.raises(ServiceUnavailableError, match="is not a URL") as caught:
        HttpRewardClient(url)
    assert "s3cret" not in str(caught.value)


def test_threads_and_event_loops_share_a_connection_until_its_end(service: FakeService) -> None:
    client = HttpRewardClient(service.url)
    assert client.score(RIGHT).score == 1.0
    for _ in range(2):
        assert asyncio.run(client.ascore(RIGHT)).score == 1.0
    assert service.connections == 1
    client.close()
    assert client.score(RIGHT).score == 1.0
    assert service.connections == 2


def test_the_models_are_listed(service: FakeService, client: HttpRewardClient) -> None:
    assert client.models() == [{"name": "rule", "ready": True}]
    service.replies["/v1/models"] = Reply({"hello": 1})
    with pytest.raises(ServiceUnavailableError, match=service.url):
        client.models()


def test_ready_is_what_the_service_says(service: FakeService, client: HttpRewardClient) -> None:
    assert client.is_ready()
    service.replies["/ready"] = Reply({"status": "?"}, 503)
    assert not client.is_ready()
    assert not HttpRewardClient(dead_url()).is_ready()


async def test_a_result_is_explained(service: FakeService, client: HttpRewardClient) -> None:
    asked = {**RIGHT, "id": "a"}
    explanation = await asyncio.to_thread(client.explain, asked)
    awaited = await client.aexplain(ScoreRequest.model_validate(asked))
    assert (explanation.result.score, explanation.result.id, awaited.result.id) == (1.0, "a", "a")
    assert explanation.rule == awaited.rule
    refused = (await client.aexplain({"response": 18, "id": "a"})).result
    assert (refused.status, refused.id) == (Status.INVALID, "a")


def test_no_explanation_is_unavailable(service: FakeService, client: HttpRewardClient) -> None:
    for reply, message in (
        (Reply({"detail": "server.explain is off"}, 404), "HTTP 404: server.explain is off"),
        (Reply({"result": {}}), "is not an explanation: result.status"),
    ):
        service.replies["/v1/explain"] = reply
        with pytest.raises(ServiceUnavailableError, match=message):
            client.explain(RIGHT)
