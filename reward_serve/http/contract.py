"""The wire contract over HTTP: status codes and JSON bodies."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from fastapi import HTTPException, Request, Response

from reward_serve.off_loop import off_loop
from reward_serve.schema import Status, deeper_than

NDJSON = "application/x-ndjson"
MAX_BODY_DEPTH = 64
MAX_BODY_VALUES = 2**17
_LONG_BODY = 2**18
_SHORTEN = "shorten the item, whose texts may have max_item_bytes in total"

_CODES = {Status.INVALID: 422, Status.TIMEOUT: 504, Status.OVERLOADED: 503}


def http_status(status: Status) -> int:
    """The HTTP status code of a single result; a judge's failure is still 200."""
    return _CODES.get(status, 200)


def reply(content: Any, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(content), code, headers, media_type="application/json")


async def lines(chunks: AsyncGenerator[list[Any], None]) -> AsyncGenerator[bytes, None]:
    """One line of JSON for each item of each chunk."""
    async with aclosing(chunks):
        async for chunk in chunks:
            yield b"".join(orjson.dumps(item) + b"\n" for item in chunk)


def retry_after(seconds: float) -> dict[str, str]:
    """The ``Retry-After`` header for a pause, rounded up and at least 1 s."""
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


async def read_json(request: Request, limit: int, *, one_item: bool = False) -> Any:
    """Parse the body as JSON.

    Args:
        request: the request.
        limit: maximum bytes.
        one_item: whether the body is a single item, not a batch.

    Raises:
        HTTPException: 413, the body has more than ``limit`` bytes or ``MAX_BODY_VALUES`` values;
            422, it is not valid JSON.
    """
    remedy = _SHORTEN if one_item else f"split the batch, or if it is one item, {_SHORTEN}"
    limited = f"body: has more than {limit} bytes, the limit server.max_body_bytes; {remedy}"
    too_large = HTTPException(413, limited)
    try:
        announced = int(request.headers.get("content-length") or 0)
    except ValueError:
        raise HTTPException(422, "Content-Length: must be a number of bytes") from None
    if announced > limit:
        raise too_large
    chunks, size = [], 0
    async for chunk in request.stream():
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise too_large
    return await off_loop(size > _LONG_BODY, _content, b"".join(chunks), remedy)


def _content(body: bytes, remedy: str) -> Any:
    if _has_too_many_values(body):
        raise HTTPException(413, f"body: has more than {MAX_BODY_VALUES} values; {remedy}")
    content = _parsed(body)
    if deeper_than(content, MAX_BODY_DEPTH):
        raise HTTPException(
            422, f"body: is nested more than {MAX_BODY_DEPTH} levels deep; flatten it"
        )
    return content


def _has_too_many_values(body: bytes) -> bool:
    """Whether parsing would take long: 16 MiB of text take 20 ms, of empty lists 3 s."""
    if _values(body) <= MAX_BODY_VALUES:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # only the quotes around strings
    if plain.count(b'"') > 4 * MAX_BODY_VALUES:
        return True
    return _values(b"".join(plain.split(b'"')[::2])) > MAX_BODY_VALUES


def _values(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # orjson rejects a whole batch for one lone surrogate, which only makes its item invalid.
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise HTTPException(422, f"body: is not JSON: {error}") from None
