"""The OpenAPI document, and the service against it: schemathesis asks, the replies are read here.

The document cannot say everything: what a service may refuse though the document allows it, and
that a batch answers for its faulty items one by one, is said here.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from schemathesis.checks import CHECKS

from reward_serve.schema import MAX_REFERENCES, MAX_TIMEOUT_S, ScoreRequest, ScoreResult, Status
from tests.fake_ingress import BEARER, KEY, KEYS, served
from tests.tiers import share

Case = schemathesis.Case[Any]

# What a reward model may refuse that the contract allows: a reference without an answer in it,
# metadata that is too large.
_EXPLAINED = ("reference: ", "rubric.", "rubric: ", "metadata: ", "model: ")
_SOON_S = 5.0

# Loaded as they are collected: schemathesis makes a test of each operation.
DOCUMENT: dict[str, Any] = served().get("/openapi.json").json()
TYPES = DOCUMENT["components"]["schemas"]
keyed_app: Any = served(KEYS, max_concurrent_items_per_key=64).app
keyed = schemathesis.openapi.from_asgi(
    "/openapi.json",
    keyed_app,
    config=schemathesis.Config.from_dict(
        {
            "generation": {"deterministic": True, "database": "none", "max-examples": share(60, 4)},
            "seed": 0,
        }
    ),
    headers=BEARER,
)
_item_schema = jsonschema_rs.validator_for(
    {"$ref": "#/components/schemas/ScoreRequest", "components": DOCUMENT["components"]}
)


def _addressed(item: Any) -> Any:
    """The item, sent to a model that there is: most names would only be refused as unknown.

    It waits for no group, whose other requests would never come.
    """
    if not isinstance(item, dict):
        return item
    size, name = item.get("group_size"), item.get("model")
    if isinstance(size, int | float) and size in range(2, 65):
        item = {**item, "group_size": None}
    return {**item, "model": "rule"} if isinstance(name, str) and len(name) < 9 else item


@keyed.parametrize()
def test_every_reply_is_as_the_document_says(case: Case) -> None:
    body: Any = _addressed(case.body)
    items = body.get("requests") if isinstance(body, dict) else None
    if isinstance(items, list):
        body = {**body, "requests": [_addressed(item) for item in items]}
    if body is not case.body:
        case.body = body
    response = case.call(headers=BEARER)
    content: Any = response.json() if "json" in str(response.headers["content-type"]) else {}
    excluded = []
    if response.status_code == 422 and content["detail"].startswith(_EXPLAINED):
        excluded.append("positive_data_acceptance")
    if response.status_code in (503, 504) and body.get("timeout_s", 60) < _SOON_S:
        excluded.append("not_a_server_error")  # no fault: the deadline was that short
    if response.status_code == 200 and isinstance(items, list):
        excluded.append("negative_data_rejection")
        for item, result in zip(body["requests"], content["results"], strict=True):
            if not _item_schema.is_valid(item):
                assert result["status"] == "invalid", (item, result)
            elif result["status"] == "invalid":
                assert result["reason"].startswith(_EXPLAINED), (item, result)
    checks: Any = CHECKS.get_by_names(excluded)
    case.validate_response(response, excluded_checks=checks)


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
    described = DOCUMENT["paths"][path]["post"]
    named = [
        part["content"]["application/json"]["schema"]["$ref"]
        for part in (described["requestBody"], *described["responses"].values())
    ]
    assert named == [f"#/components/schemas/{name}" for name in (body, result, "Problem")]


def test_requests_and_results_are_described_with_all_their_fields_and_bounds() -> None:
    request, result = TYPES["ScoreRequest"], TYPES["ScoreResult"]
    assert set(request["properties"]) == set(ScoreRequest.model_fields)
    assert request["required"] == ["response"]
    assert request["additionalProperties"] is False
    several = request["properties"]["reference"]["anyOf"][1]
    assert (several["minItems"], several["maxItems"]) == (1, MAX_REFERENCES)
    assert request["properties"]["timeout_s"]["maximum"] == MAX_TIMEOUT_S
    assert set(result["properties"]) == set(ScoreResult.model_fields)
    assert set(result["required"]) == set(ScoreResult.model_fields) - {"components"}
    assert set(TYPES["Status"]["enum"]) == {status.value for status in Status}


def test_with_keys_the_document_says_so_and_names_none() -> None:
    reply = served(KEYS).get("/openapi.json", headers=BEARER)
    document = reply.json()
    (scheme,) = document["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert document["paths"]["/v1/score"]["post"]["security"] == [{"API key": []}]
    assert "security" not in document["paths"]["/health"]["get"]
    assert "securitySchemes" not in DOCUMENT["components"]
    assert [secret for secret in (KEY, *KEYS, *KEYS.values()) if secret in reply.text] == []
