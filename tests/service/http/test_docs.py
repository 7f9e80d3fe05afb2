from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reward_serve.schema import (
    MAX_METADATA_BYTES,
    MAX_NAME_CHARACTERS,
    MAX_REFERENCES,
    MAX_TIMEOUT_S,
    ScoreRequest,
    ScoreResult,
    Status,
)
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


def resolved(document: dict[str, Any], node: Any) -> Any:
    """The node, or what it refers to; a reference that dangles raises KeyError."""
    reference = node.get("$ref") if isinstance(node, dict) else None
    if not isinstance(reference, str):
        return node
    found: Any = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def json_schema(document: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    schema = described["content"]["application/json"]["schema"]
    found: dict[str, Any] = resolved(document, schema)
    return found


@pytest.mark.parametrize("compatible_with", [[], ["openai", "openrlhf", "slime"]])
def test_no_reference_of_the_openapi_document_dangles(compatible_with: list[str]) -> None:
    document = served(compatible_with=compatible_with).get("/openapi.json").json()
    referring = [node for node in nodes(document) if isinstance(node.get("$ref"), str)]
    assert len(referring) > 30
    assert all(isinstance(resolved(document, node), dict) for node in referring)


def test_a_type_is_documented_only_where_it_is_served() -> None:
    compatible = served(compatible_with=["openai"]).get("/openapi.json").json()
    assert "ChatRequest" in compatible["components"]["schemas"]
    assert "ChatRequest" not in openapi()["components"]["schemas"]


@pytest.mark.parametrize(
    ("path", "body", "result"),
    [
        ("/v1/score", "ScoreRequest", "ScoreResult"),
        ("/v1/score/batch", "ScoreBatch", "ScoreResults"),
        ("/v1/score/group", "GroupRequest", "GroupResult"),
        ("/v1/explain", "ScoreRequest", "Explanation"),
    ],
)
def test_generated_clients_get_a_named_type_for_each_body(
    path: str, body: str, result: str
) -> None:
    document = openapi()
    described = document["paths"][path]["post"]
    named = [
        part["content"]["application/json"]["schema"]["$ref"]
        for part in (described["requestBody"], described["responses"]["200"])
    ]
    assert named == [f"#/components/schemas/{name}" for name in (body, result)]


def test_a_request_is_described_with_all_its_fields() -> None:
    types = openapi()["components"]["schemas"]
    request = types["ScoreRequest"]
    assert types["ScoreBatch"]["properties"]["requests"]["items"] == {
        "$ref": "#/components/schemas/ScoreRequest"
    }
    assert set(request["properties"]) == set(ScoreRequest.model_fields)
    assert request["required"] == ["response"]
    assert request["additionalProperties"] is False
    assert set(types["Options"]["properties"]) == {
        "mode",
        "temperature",
        "top_p",
        "max_tokens",
        "enable_thinking",
        "thinking_tokens",
        "cache",
    }


@pytest.mark.parametrize(
    ("name", "more"),
    [("ScoreResult", set()), ("StreamedScore", {"index"})],
)
def test_a_result_is_described_with_all_its_fields(name: str, more: set[str]) -> None:
    types = openapi()["components"]["schemas"]
    fields = set(ScoreResult.model_fields) | more
    assert set(types[name]["properties"]) == fields
    assert set(types[name]["required"]) == fields - {"components"}
    assert set(types["Status"]["enum"]) == {status.value for status in Status}


def test_the_lines_of_a_streamed_batch_are_described() -> None:
    ok = openapi()["paths"]["/v1/score/batch"]["post"]["responses"]["200"]
    line = ok["content"]["application/x-ndjson"]["x-line-schema"]
    assert line == {"$ref": "#/components/schemas/StreamedScore"}


def test_every_other_status_is_one_problem_with_a_detail() -> None:
    document = served(KEYS, compatible_with=["openai"]).get("/openapi.json", headers=BEARER).json()
    for methods in document["paths"].values():
        for route in methods.values():
            assert set(route["responses"]) == {"200", "default"}
            problem = json_schema(document, route["responses"]["default"])
            assert problem["required"] == ["detail"]


def test_the_bounds_of_a_request_are_described() -> None:
    properties = openapi()["components"]["schemas"]["ScoreRequest"]["properties"]
    several = properties["reference"]["anyOf"][1]
    assert (several["minItems"], several["maxItems"]) == (1, MAX_REFERENCES)
    assert properties["timeout_s"]["maximum"] == MAX_TIMEOUT_S
    assert properties["timeout_s"]["exclusiveMinimum"] == 0
    assert properties["id"]["anyOf"][0]["maxLength"] == MAX_NAME_CHARACTERS
    assert str(MAX_METADATA_BYTES) in properties["metadata"]["description"]
