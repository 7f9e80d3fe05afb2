from __future__ import annotations

import json
from typing import Any

import pytest
from ray.serve._private.http_util import validate_http_proxy_callback_return
from ray.serve._private.utils import call_function_from_import_path

from reward_serve.http.proxy import ReadableHeaders


async def sent(kind: str, *headers: tuple[bytes, bytes]) -> list[Any]:
    """What is sent back for a request: by the application behind, that it was called."""
    messages: list[Any] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        await send("passed")

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        messages.append(message)

    await ReadableHeaders(behind)({"type": kind, "headers": headers}, receive, send)
    return messages


@pytest.mark.parametrize("value", [b"\xff", b"abc\xe9", b"\xed\xa0\x80"])
async def test_a_header_that_is_not_utf_8_is_refused_by_name(value: bytes) -> None:
    start, body = await sent("http", (b"host", b"x"), (b"x-request-id", value))
    assert start["status"] == 400
    assert json.loads(body["body"]) == {"detail": "x-request-id: is not UTF-8; send ASCII"}


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_others_pass(kind: str) -> None:
    assert await sent(kind) == ["passed"]
    assert await sent(kind, (b"x-request-id", "abc é".encode()), (b"a", b"")) == ["passed"]


async def test_what_has_no_headers_passes() -> None:
    assert await sent("lifespan") == ["passed"]


async def test_a_websocket_is_refused_likewise() -> None:
    (message,) = await sent("websocket", (b"x-session-id", b"\xff"))
    assert message["type"] == "websocket.close"


async def test_a_name_cannot_write_the_reply() -> None:
    _, body = await sent("http", (b"\xff\x1b" * 99, b"\xff"))
    assert len(body["body"]) < 200
    assert b"\x1b" not in body["body"]


def test_serve_takes_it_from_where_its_variable_says() -> None:
    middlewares = call_function_from_import_path("reward_serve.http.proxy:middleware")
    assert [one.cls for one in validate_http_proxy_callback_return(middlewares)] == [
        ReadableHeaders
    ]
