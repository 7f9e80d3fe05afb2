from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reward_serve.http.docs import BATCH_DOCS, MODELS_DOCS, READY_DOCS, SINGLE_DOCS
from reward_serve.schema import (
    MAX_METADATA_BYTES,
    MAX_NAME_CHARACTERS,
    MAX_REFERENCES,
    MAX_TIMEOUT_S,
    ScoreRequest,
    ScoreResult,
    Status,
)
from reward_serve.version import VERSION_HEADER
from tests.fake_ingress import BEARER, KEYS, served


def openapi() -> dict[str, Any]:
    document: dict[str, Any] = served().get("/openapi.json").json()
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


def test_no_reference_of_the_openapi_document_dangles() -> None:
    document = openapi()
    assert len(list(nodes(document))) > 100
    references = {node["$ref"] for node in nodes(document) if isinstance(node.get("$ref"), str)}
    assert {reference for reference in references if not resolves(document, reference)} == set()


def test_the_descriptions_refer_to_nothing_outside_themselves() -> None:
    assert [
        node for node in nodes([SINGLE_DOCS, BATCH_DOCS, MODELS_DOCS, READY_DOCS]) if "$ref" in node
    ] == []


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
        "thinking_tokens",
        "samples",
        "cache",
    }


@pytest.mark.parametrize(
    ("code", "more"),
    [("200", set()), ("422", {"detail"}), ("503", {"detail"}), ("504", {"detail"})],
)
def test_a_single_result_is_described_with_all_its_fields(code: str, more: set[str]) -> None:
    responses = openapi()["paths"]["/v1/score"]["post"]["responses"]
    properties = json_schema(responses[code])["properties"]
    assert set(properties) == set(ScoreResult.model_fields) | more
    assert set(properties["status"]["enum"]) == {status.value for status in Status}
    required = json_schema(responses[code])["required"]
    assert set(required) == ({"detail"} if code == "422" else set(ScoreResult.model_fields) | more)


def test_a_batch_of_results_is_described() -> None:
    ok = openapi()["paths"]["/v1/score/batch"]["post"]["responses"]["200"]
    results = json_schema(ok)["properties"]["results"]
    assert set(results["items"]["properties"]) == set(ScoreResult.model_fields)
    line = ok["content"]["application/x-ndjson"]["x-line-schema"]
    assert set(line["properties"]) == set(ScoreResult.model_fields) | {"index"}


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("/v1/score", {"200", "404", "413", "422", "500", "503", "504"}),
        ("/v1/score/batch", {"200", "413", "422", "500"}),
    ],
)
def test_every_code_is_described(path: str, codes: set[str]) -> None:
    responses = openapi()["paths"][path]["post"]["responses"]
    assert set(responses) == codes
    schemas = [json_schema(response) for code, response in responses.items() if code != "200"]
    assert [schema for schema in schemas if "detail" not in schema["properties"]] == []


def test_the_bounds_of_a_request_are_described() -> None:
    properties = json_schema(openapi()["paths"]["/v1/score"]["post"]["requestBody"])["properties"]
    several = properties["reference"]["anyOf"][1]
    assert (several["minItems"], several["maxItems"]) == (1, MAX_REFERENCES)
    assert properties["timeout_s"]["maximum"] == MAX_TIMEOUT_S
    assert properties["timeout_s"]["exclusiveMinimum"] == 0
    assert properties["id"]["anyOf"][0]["maxLength"] == MAX_NAME_CHARACTERS
    assert str(MAX_METADATA_BYTES) in properties["metadata"]["description"]


@pytest.mark.parametrize(
    ("path", "code", "header"),
    [
        ("/v1/score", "200", VERSION_HEADER),
        ("/v1/score", "503", "Retry-After"),
        ("/v1/score", "429", "Retry-After"),
        ("/v1/score/batch", "401", "WWW-Authenticate"),
    ],
)
def test_the_headers_of_a_reply_are_described(path: str, code: str, header: str) -> None:
    document = served(KEYS).get("/openapi.json", headers=BEARER).json()
    reply = document["paths"][path]["post"]["responses"][code]
    assert reply["headers"][header]["required"] is True
