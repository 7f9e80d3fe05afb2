from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reward_serve.http_contract import BATCH_DOCS, SINGLE_DOCS, http_status
from reward_serve.schema import ScoreRequest, ScoreResult, Status
from tests.fake_ingress import served


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
        "thinking_tokens",
        "samples",
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
