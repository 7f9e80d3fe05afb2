"""Does a service do what its OpenAPI document says? schemathesis asks; the replies are read here.

The document cannot say everything: what a service may refuse though the document allows it, and
that a batch answers for its faulty items one by one, is said here.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import schemathesis
from schemathesis.checks import CHECKS

from reward_serve.http.contract import NDJSON
from tests.fake_ingress import served

Case = schemathesis.Case[Any]

# What a reward model may refuse that the contract allows: a reference without an answer in it,
# metadata that is too large.
_EXPLAINED = (
    "reference: ",
    "rubric.",
    "rubric: ",
    "metadata: ",
    "model: ",
    "query, prompts, labels: ",
    "prompts.",
)
_SOON_S = 5.0

_COMPONENTS = served().get("/openapi.json").json()["components"]


def _validator(name: str) -> Any:
    schema = {"$ref": f"#/components/schemas/{name}", "components": _COMPONENTS}
    return jsonschema_rs.validator_for(schema)


_ITEM_SCHEMA = _validator("ScoreRequest")
_LINE_SCHEMA = _validator("StreamedScore")


def settings(examples: int) -> schemathesis.Config:
    """The same cases every time: so many made up for an operation, and one for each bound."""
    return schemathesis.Config.from_dict(
        {
            "generation": {"deterministic": True, "database": "none", "max-examples": examples},
            "seed": 0,
        }
    )


def _addressed(item: Any) -> Any:
    """The item, sent to a model that there is: most names would only be refused as unknown.

    It waits for no group, whose other requests would never come.
    """
    size = item.get("group_size") if isinstance(item, dict) else None
    if isinstance(size, int | float) and size in range(2, 65):
        item = {**item, "group_size": None}
    name = item.get("model") if isinstance(item, dict) else None
    return {**item, "model": "rule"} if isinstance(name, str) and len(name) < 9 else item


def _address(case: Case) -> None:
    body: Any = _addressed(case.body)
    if isinstance(body, dict) and isinstance(body.get("requests"), list):
        body = {**body, "requests": [_addressed(item) for item in body["requests"]]}
    if body is not case.body:
        case.body = body


def ask(case: Case, **call: Any) -> None:
    """Send the case, and see whether the reply is what the document says of it."""
    _address(case)
    response = case.call(**call)
    body: Any = case.body if isinstance(case.body, dict) else {}
    content = _decoded(response)
    excluded = []
    if response.status_code == 422 and str(content.get("detail", "")).startswith(_EXPLAINED):
        excluded.append("positive_data_acceptance")
    if response.status_code in (503, 504) and body.get("timeout_s", 60) < _SOON_S:
        excluded.append("not_a_server_error")  # no fault: the deadline was that short
    items = body.get("requests")
    if response.status_code == 200 and isinstance(items, list):
        excluded.append("negative_data_rejection")
        _check_items(items, content["results"])
    checks: Any = CHECKS.get_by_names(excluded)
    case.validate_response(response, excluded_checks=checks)


def _decoded(response: Any) -> dict[str, Any]:
    try:
        content = response.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _check_items(items: list[Any], results: list[Any]) -> None:
    """Every faulty item is ``invalid``, and no other without a reason."""
    assert len(results) == len(items)
    for item, result in zip(items, results, strict=True):
        if not _ITEM_SCHEMA.is_valid(item):
            assert result["status"] == "invalid", (item, result)
        elif result["status"] == "invalid":
            assert result["reason"].startswith(_EXPLAINED), (item, result)


def ask_for_lines(case: Case, **call: Any) -> None:
    """Send the batch, have its results streamed, and see whether they are all there."""
    _address(case)
    items = case.body.get("requests") if isinstance(case.body, dict) else None
    response = case.call(headers={"Accept": NDJSON, **call.pop("headers", {})}, **call)
    if case.method != "POST" or not isinstance(items, list):
        assert response.status_code in (405, 422)
        return
    assert response.status_code == 200, response.text
    assert response.headers["content-type"][0].startswith(NDJSON)
    lines = [json.loads(line) for line in response.content.splitlines()]
    for line in lines:
        _LINE_SCHEMA.validate(line)
    results = sorted(lines, key=lambda line: line["index"])
    assert [line["index"] for line in results] == list(range(len(items)))
    _check_items(items, results)
