from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import orjson
import pytest
from fastapi import HTTPException, Request

from reward_serve.http.contract import MAX_BODY_VALUES, http_status, read_json
from reward_serve.schema import Status
from tests.fake_ingress import GOOD, served
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


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (
            "/v1/score",
            "server.max_body_bytes; shorten the item, whose texts may have max_item_bytes",
        ),
        (
            "/v1/score/batch",
            "server.max_body_bytes; split the batch, or if it is one item, shorten",
        ),
    ],
)
def test_a_body_over_the_limit_is_refused_with_what_helps(path: str, said: str) -> None:
    reply = served(max_body_bytes=1000).post(path, json={"response": "1" * 2000})
    assert reply.status_code == 413
    assert f"body: has more than 1000 bytes, the limit {said}" in reply.json()["detail"]


def test_a_misspelled_model_in_a_batch_is_invalid_and_names_those_there_are() -> None:
    items = [{**GOOD, "model": "jugde"}, GOOD]
    results = served().post("/v1/score/batch", json={"requests": items}).json()["results"]
    assert [result["status"] for result in results] == ["invalid", "ok"]
    single = served().post("/v1/score", json=items[0])
    assert results[0]["reason"] == single.json()["detail"]
    assert "no model is named 'jugde'; choose from " in results[0]["reason"]
