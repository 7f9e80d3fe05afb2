"""The OpenAPI documentation of each path, complete enough to generate a client."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from reward_serve.explanation import ExplainRequest, Explanation
from reward_serve.http.bodies import (
    FailedExplanation,
    FailedScore,
    Fault,
    Health,
    Models,
    Problem,
    ScoreBatch,
    ScoreResults,
    StreamedScore,
    Waiting,
)
from reward_serve.http.contract import NDJSON
from reward_serve.schema import ScoreRequest, ScoreResult
from reward_serve.version import VERSION_HEADER

Docs = dict[str, Any]
Responses = dict[int | str, Any]

_REFERENCE = "#/components/schemas/{model}"
_referenced: list[tuple[type[BaseModel], JsonSchemaMode]] = []


class DocumentedApi(FastAPI):
    """An API whose document also has the types that ``reference`` names.

    FastAPI collects the types of parameters and responses; these routes parse bodies themselves.
    """

    def openapi(self) -> Docs:
        """The OpenAPI document."""
        document = super().openapi()
        paths = json.dumps(document["paths"])
        used = [(m, mode) for m, mode in _referenced if json.dumps(_name(m)) in paths]
        _, schemas = models_json_schema(used, ref_template=_REFERENCE)
        document["components"]["schemas"] |= schemas["$defs"]
        return document


def _name(model: type[BaseModel]) -> str:
    return _REFERENCE.format(model=model.__name__)


def reference(model: type[BaseModel], mode: JsonSchemaMode = "validation") -> Docs:
    """The schema of a type by its name."""
    _referenced.append((model, mode))
    return {"$ref": _name(model)}


def request_body(model: type[BaseModel]) -> Docs:
    """The ``openapi_extra`` of a JSON body."""
    content = {"application/json": {"schema": reference(model)}}
    return {"requestBody": {"required": True, "content": content}}


_TEXT = {"type": "string"}
_HEADERS: Docs = {
    VERSION_HEADER: {"description": "The service's version", "required": True, "schema": _TEXT}
}
RETRY_AFTER: Docs = {
    "Retry-After": {
        "description": "Seconds to wait before the next attempt",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
}
_CHALLENGE: Docs = {
    "WWW-Authenticate": {"description": "Bearer", "required": True, "schema": _TEXT}
}


def response(description: str, model: Any, headers: Docs | None = None) -> Docs:
    """A JSON response, with the headers of every response."""
    return {"description": description, "model": model, "headers": _HEADERS | (headers or {})}


FAULT_OF_OURS: Responses = {
    500: response("Internal error; the service's log has the request_id", Fault)
}
TOO_LARGE: Responses = {413: response("Body or batch too large; split it", Problem)}

KEY_DOCS: Responses = {
    401: response("Missing or unknown API key: send Authorization: Bearer", Problem, _CHALLENGE),
}
"""Responses of paths that need a key."""

LIMIT_DOCS: Responses = {
    429: response("The key's limit of items in flight is reached", Problem, RETRY_AFTER),
}
"""Responses of paths that count a key's items."""

_REFUSED = "A field is invalid; detail names it and the remedy"

SINGLE_DOCS: Docs = {
    "operation_id": "score",
    "openapi_extra": request_body(ScoreRequest),
    "responses": {
        200: response("A score, or a judge's failure (status)", ScoreResult),
        404: response("Unknown model", Problem),
        **TOO_LARGE,
        422: response(_REFUSED, FailedScore | Problem),
        **FAULT_OF_OURS,
        503: response("Overloaded: nothing was done", FailedScore, RETRY_AFTER),
        504: response("The deadline timeout_s passed", FailedScore),
    },
}

EXPLAIN_DOCS: Docs = {
    "operation_id": "explain",
    "openapi_extra": request_body(ExplainRequest),
    "responses": {
        200: response("The result and how it came about", Explanation),
        404: response("Unknown model, or server.explain is false", Problem),
        **TOO_LARGE,
        422: response(_REFUSED, FailedExplanation | Problem),
        **FAULT_OF_OURS,
        503: response(
            "Overloaded, or at server.max_concurrent_explanations: nothing was done",
            FailedExplanation,
            RETRY_AFTER,
        ),
        504: response("The deadline timeout_s passed", FailedExplanation),
    },
}

_LINES: Docs = {
    "schema": {
        "type": "string",
        "description": "A line of JSON for each request when it finishes, with its result and its "
        "index in the batch.",
    },
    "x-line-schema": reference(StreamedScore, "serialization"),
}

BATCH_DOCS: Docs = {
    "operation_id": "score_batch",
    "openapi_extra": request_body(ScoreBatch),
    "responses": {
        200: {
            **response(f"Results in order, or with Accept: {NDJSON} as they finish", ScoreResults),
            "content": {NDJSON: _LINES},
        },
        **TOO_LARGE,
        422: response("The body is not a batch", Problem),
        **FAULT_OF_OURS,
    },
}

MODELS_DOCS: Docs = {
    "operation_id": "models",
    "responses": {200: response("The reward models", Models), **FAULT_OF_OURS},
}

HEALTH_DOCS: Docs = {
    "operation_id": "health",
    "responses": {200: response("The HTTP process is up", Health)},
}

READY_DOCS: Docs = {
    "operation_id": "ready",
    "responses": {
        200: response("Every reward model has a replica that can score", Health),
        **FAULT_OF_OURS,
        503: response("No replica can score yet", Waiting),
    },
}
