from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import orjson
import pytest
from fastapi import HTTPException, Request

from reward_serve.http.contract import MAX_BODY_VALUES, http_status, read_json
from reward_serve.schema import Status
from tests.pauses import LONGEST_S, shortest_pause

LIMIT = 32 * 2**20


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status.OK, 200),
        (Status.UNPARSEABLE, 200),
        (Status.TRUNCATED, 200),
        (Status.ERROR, 200),
        (Status.INVALID, 422),
        (Status.OVERLOADED, 503),
        (Status.TIMEOUT, 504),
    ],
)
def test_the_code_of_a_single_score(status: Status, code: int) -> None:
    assert http_status(status) == code


async def read(body: bytes) -> Any:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    with ExitStack() as until_end:
        scope = {"type": "http", "headers": [], "state": {"until_end": until_end}}
        return await read_json(Request(scope, receive), LIMIT)


TEXTS: dict[str, list[dict[str, Any]]] = {
    "eight items of 64 references": [{"response": "5", "reference": ["½" * 30_000] * 64}] * 8,
    "commas and brackets": [{"response": "[1, 2], {3, 4}, " * 20_000}] * 100,
    "quotes and backslashes": [{"response": '"\\,[' * 40_000}] * 60,
}


@pytest.mark.parametrize("name", TEXTS)
async def test_a_long_body_of_text_is_read_and_lets_others_pass(name: str) -> None:
    body = orjson.dumps({"requests": TEXTS[name]})
    assert len(body) <= LIMIT
    assert await shortest_pause(lambda: read(body)) < LONGEST_S
    assert await read(body) == {"requests": TEXTS[name]}


@pytest.mark.parametrize("value", ["0", "[]", "{}", '""', '{"a":1}', "[[[[0]]]]", "1.5"])
async def test_a_body_of_tiny_values_is_refused_and_lets_others_pass(value: str) -> None:
    body = f"[{','.join([value] * (LIMIT // (len(value) + 1) - 1))}]".encode()

    async def refused() -> None:
        with pytest.raises(HTTPException, match=f"more than {MAX_BODY_VALUES} values") as caught:
            await read(body)
        assert caught.value.status_code == 413

    assert await shortest_pause(refused) < LONGEST_S


async def test_a_body_of_as_many_values_as_there_may_be_is_read() -> None:
    values = [0] * (MAX_BODY_VALUES - 1)
    assert await read(orjson.dumps(values)) == values
