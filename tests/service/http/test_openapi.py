"""The OpenAPI document, and the replies against it."""

import json
from typing import Any

import jsonschema
import pytest

from reward_serve.schema import MAX_TIMEOUT_S, ScoreRequest, ScoreResult, Status
from tests.fake_ingress import BEARER, KEY, KEYS, served
from tests.rows import rows

COMPATIBLE: dict[str, Any] = {"compatible_with": ["openai", "openrlhf", "slime"]}
DOCUMENT: dict[str, Any] = served(**COMPATIBLE).get("/openapi.json").json()
TYPES = DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize(("path", "body", "code"), rows(__file__, "replies"))
def test_every_reply_is_as_the_document_says(path: str, body: Any, code: int) -> None:
    method = "get" if body is None else "post"
    reply = served(**COMPATIBLE).request(method, path, content=json.dumps(body))
    assert reply.status_code == code
    described = DOCUMENT["paths"][path][method]["responses"]["200" if code == 200 else "default"]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.validate(reply.json(), {**schema, "components": DOCUMENT["components"]})


def test_requests_and_results_are_described_with_all_their_fields_and_bounds() -> None:
    request, result = TYPES["ScoreRequest"], TYPES["ScoreResult"]
    assert set(request["properties"]) == set(ScoreRequest.model_fields)
    assert "required" not in request  # response, or messages with one
    assert request["additionalProperties"] is False
    assert request["properties"]["timeout_s"]["maximum"] == MAX_TIMEOUT_S
    assert set(result["properties"]) == set(ScoreResult.model_fields)
    assert set(result["required"]) == set(ScoreResult.model_fields) - {"components", "critique"}
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
