from __future__ import annotations

from typing import Any

import httpx
import pytest
from ray.exceptions import TaskCancelledError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from reward_serve.http.middleware import Exchange
from reward_serve.version import __version__


def plain(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello", headers={"x-other": "kept"})


def streamed(request: Request) -> StreamingResponse:
    return StreamingResponse(iter(["a", "b"]))


def impostor(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello", headers={"x-reward-serve-version": "99"})


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("/plain", 200, "hello"),
        ("/streamed", 200, "ab"),
        ("/impostor", 200, "hello"),
        ("/missing", 404, "Not Found"),
    ],
)
async def test_every_reply_carries_the_version_once(path: str, code: int, text: str) -> None:
    routes = [Route("/plain", plain), Route("/streamed", streamed), Route("/impostor", impostor)]
    transport = httpx.ASGITransport(Exchange(Starlette(routes=routes)))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        reply = await client.get(path)
    assert (reply.status_code, reply.text) == (code, text)
    assert reply.headers.get_list("x-reward-serve-version") == [__version__]
    if path == "/plain":
        assert reply.headers["x-other"] == "kept"


async def test_what_is_not_http_passes_untouched() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        seen.append(message)

    await Exchange(app)({"type": "lifespan"}, receive, send)
    assert seen == [({"type": "lifespan"}, receive, send)]


def exchange(
    *parts: bytes | Exception, until_end: list[str]
) -> tuple[Exchange, list[dict[str, Any]], dict[str, Any]]:
    """One whose application sends these parts, or raises; what it has sent; and the request."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["state"]["until_end"].callback(until_end.append, "left")
        for part in parts:
            if isinstance(part, Exception):
                raise part
            if not sent:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            assert until_end == []
            await send({"type": "http.response.body", "body": part, "more_body": True})

    return Exchange(app), sent, {"type": "http", "method": "GET", "path": "/x", "headers": []}


async def nothing() -> dict[str, Any]:
    return {}


async def test_what_lasts_until_the_end_lasts_through_a_stream_and_no_longer() -> None:
    until_end: list[str] = []
    app, sent, scope = exchange(b"a", b"b", until_end=until_end)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, nothing, send)
    assert until_end == ["left"]
    assert [message.get("body") for message in sent] == [None, b"a", b"b"]


async def test_a_stream_that_breaks_is_broken_off_and_ends() -> None:
    until_end: list[str] = []
    app, sent, scope = exchange(b"a", ValueError("broken"), until_end=until_end)

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(ValueError, match="broken"):
        await app(scope, nothing, send)
    assert until_end == ["left"]
    assert len(sent) == 2


async def test_a_caller_who_has_gone_is_no_fault_of_ours() -> None:
    until_end: list[str] = []
    app, sent, scope = exchange(ClientDisconnect(), until_end=until_end)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, nothing, send)
    assert (until_end, sent) == (["left"], [])


async def test_a_caller_who_goes_while_the_body_is_read_is_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive, send).body()

    async def taken_back() -> dict[str, Any]:
        raise TaskCancelledError

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/x", "headers": []}
    await Exchange(app)(scope, taken_back, send)
    assert (sent, caplog.records) == ([], [])
