from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from reward_serve.http_contract import BATCH_DOCS, SINGLE_DOCS, VersionHeader, http_status
from reward_serve.ingress import api
from reward_serve.schema import ScoreRequest, ScoreResult, Status
from reward_serve.version import __version__


def openapi() -> dict[str, Any]:
    document: dict[str, Any] = api.openapi()
    return document


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for part in parts:
        yield from nodes(part)


def resolves(document: dict[str, Any], reference: str) -> bool:
    node: Any = document
    for part in reference.removeprefix("#/").split("/"):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    return reference.startswith("#/")


def json_schema(described: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = described["content"]["application/json"]["schema"]
    return schema


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


def test_no_reference_of_the_openapi_document_dangles() -> None:
    document = openapi()
    assert len(list(nodes(document))) > 100
    references = {node["$ref"] for node in nodes(document) if isinstance(node.get("$ref"), str)}
    assert {reference for reference in references if not resolves(document, reference)} == set()


def test_the_descriptions_refer_to_nothing_outside_themselves() -> None:
    assert [node for node in nodes([SINGLE_DOCS, BATCH_DOCS]) if "$ref" in node] == []


@pytest.mark.parametrize("path", ["/v1/score", "/v1/score/batch"])
def test_a_request_is_described_with_all_its_fields(path: str) -> None:
    body = json_schema(openapi()["paths"][path]["post"]["requestBody"])
    request = body["properties"]["requests"]["items"] if path.endswith("batch") else body
    assert set(request["properties"]) == set(ScoreRequest.model_fields)
    assert request["required"] == ["response"]
    assert request["additionalProperties"] is False
    options = request["properties"]["options"]["properties"]
    assert set(options) == {
        "mode",
        "temperature",
        "top_p",
        "max_tokens",
        "enable_thinking",
        "cache",
    }


@pytest.mark.parametrize(
    ("code", "more"), [("200", set()), ("503", {"detail"}), ("504", {"detail"})]
)
def test_a_single_result_is_described_with_all_its_fields(code: str, more: set[str]) -> None:
    responses = openapi()["paths"]["/v1/score"]["post"]["responses"]
    properties = json_schema(responses[code])["properties"]
    assert set(properties) == set(ScoreResult.model_fields) | more
    assert set(properties["status"]["enum"]) == {status.value for status in Status}


def test_a_batch_of_results_is_described() -> None:
    ok = openapi()["paths"]["/v1/score/batch"]["post"]["responses"]["200"]
    results = json_schema(ok)["properties"]["results"]
    assert set(results["items"]["properties"]) == set(ScoreResult.model_fields)
    assert "application/x-ndjson" in ok["content"]


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("/v1/score", {"200", "404", "413", "422", "503", "504"}),
        ("/v1/score/batch", {"200", "413", "422"}),
    ],
)
def test_every_code_is_described(path: str, codes: set[str]) -> None:
    responses = openapi()["paths"][path]["post"]["responses"]
    assert set(responses) == codes
    schemas = [json_schema(response) for code, response in responses.items() if code != "200"]
    assert [schema for schema in schemas if "detail" not in schema["properties"]] == []


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
    transport = httpx.ASGITransport(VersionHeader(Starlette(routes=routes)))
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

    await VersionHeader(app)({"type": "lifespan"}, receive, send)
    assert seen == [({"type": "lifespan"}, receive, send)]
