"""The OpenAPI documentation of each path, complete enough to generate a client.

The routes parse bodies themselves, so the schemas are written here, from the contract's models.
"""

from __future__ import annotations

from typing import Any

from reward_serve.explanation import ExplainRequest, Explanation
from reward_serve.http.contract import NDJSON
from reward_serve.schema import ScoreRequest, ScoreResult
from reward_serve.version import VERSION_HEADER

Schema = dict[str, Any]
Docs = dict[str, Any]

TEXT: Schema = {"type": "string"}


def inline(model: Any, mode: str) -> Schema:
    """A model's JSON schema with its definitions inlined, as a path item needs it.

    A model that contains itself is inlined as any object.
    """
    schema: Schema = model.model_json_schema(ref_template="{model}", mode=mode)
    definitions = schema.pop("$defs", {})

    def resolve(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [resolve(part, inside) for part in node]
        if not isinstance(node, dict):
            return node
        name = node.get("$ref")
        if name == "JsonValue":
            return {}
        if name in inside:
            return {"type": "object"}
        if name:
            return resolve(definitions[name], (*inside, name))
        return {key: resolve(value, inside) for key, value in node.items()}

    resolved: Schema = resolve(schema, ())
    return resolved


def exact_object(properties: Schema, **fields: Any) -> Schema:
    """An object with exactly these properties."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {**schema, "additionalProperties": False, **fields}


def _extended(schema: Schema, name: str, **properties: Schema) -> Schema:
    """The object with additional properties."""
    return {
        **schema,
        "title": name,
        "properties": {**properties, **schema["properties"]},
        "required": [*properties, *schema["required"]],
    }


_REQUEST = inline(ScoreRequest, "validation")
_RESULT = inline(ScoreResult, "serialization")
_FAILED = _extended(_RESULT, "FailedScore", detail=TEXT)
DETAIL = exact_object({"detail": TEXT}, title="Problem")
_REFUSED = {**_FAILED, "title": "RefusedScore", "required": ["detail"]}
_STREAMED = _extended(_RESULT, "StreamedScore", index={"type": "integer", "minimum": 0})
_FAULT = exact_object({"detail": TEXT, "request_id": TEXT}, title="Fault")

_HEADERS: Docs = {
    VERSION_HEADER: {
        "description": "The service's version",
        "required": True,
        "schema": TEXT,
    }
}
RETRY_AFTER: Docs = {
    "Retry-After": {
        "description": "Seconds to wait before the next attempt",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
}
_CHALLENGE: Docs = {"WWW-Authenticate": {"description": "Bearer", "required": True, "schema": TEXT}}


def response(description: str, schema: Schema, headers: Docs | None = None) -> Docs:
    """A JSON response, with the headers of every response."""
    content = {"application/json": {"schema": schema}}
    return {"description": description, "headers": _HEADERS | (headers or {}), "content": content}


def request_body(schema: Schema) -> Docs:
    """The ``openapi_extra`` of a JSON body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


FAULT_OF_OURS: dict[int | str, Any] = {
    500: response("Internal error; the service's log has the request_id", _FAULT)
}
TOO_LARGE: dict[int | str, Any] = {413: response("Body or batch too large; split it", DETAIL)}

KEY_DOCS: dict[int | str, Any] = {
    401: response("Missing or unknown API key: send Authorization: Bearer", DETAIL, _CHALLENGE),
}
"""Responses of paths that need a key."""

LIMIT_DOCS: dict[int | str, Any] = {
    429: response("The key's limit of items in flight is reached", DETAIL, RETRY_AFTER),
}
"""Responses of paths that count a key's items."""

SINGLE_DOCS: Docs = {
    "operation_id": "score",
    "openapi_extra": request_body(_REQUEST),
    "responses": {
        200: response("A score, or a judge's failure (status)", _RESULT),
        404: response("Unknown model", DETAIL),
        **TOO_LARGE,
        422: response("A field is invalid; detail names it and the remedy", _REFUSED),
        **FAULT_OF_OURS,
        503: response("Overloaded: nothing was done", _FAILED, RETRY_AFTER),
        504: response("The deadline timeout_s passed", _FAILED),
    },
}

_EXPLANATION = inline(Explanation, "serialization")

EXPLAIN_DOCS: Docs = {
    "operation_id": "explain",
    "openapi_extra": request_body(inline(ExplainRequest, "validation")),
    "responses": {
        200: response("The result and how it came about", _EXPLANATION),
        404: response("Unknown model, or server.explain is false", DETAIL),
        **TOO_LARGE,
        422: response(
            "A field is invalid; detail names it and the remedy",
            {**_extended(_EXPLANATION, "RefusedExplanation", detail=TEXT), "required": ["detail"]},
        ),
        **FAULT_OF_OURS,
        503: response(
            "Overloaded, or at server.max_concurrent_explanations: nothing was done",
            _extended(_EXPLANATION, "FailedExplanation", detail=TEXT),
            RETRY_AFTER,
        ),
        504: response(
            "The deadline timeout_s passed",
            _extended(_EXPLANATION, "FailedExplanation", detail=TEXT),
        ),
    },
}

_BATCH = {
    "type": "object",
    "title": "ScoreBatch",
    "properties": {
        "requests": {
            "type": "array",
            "items": _REQUEST,
            "description": "At most server.max_batch_items. An invalid request gets the status "
            "invalid; the rest of the batch is scored.",
        }
    },
    "required": ["requests"],
}
_RESULTS = exact_object(
    {
        "results": {
            "type": "array",
            "items": _RESULT,
            "description": "A result for each request, in order.",
        }
    },
    title="ScoreResults",
)
_LINES: Docs = {
    "schema": {
        "type": "string",
        "description": "A line of JSON for each request when it finishes, with its result and its "
        "index in the batch.",
    },
    "x-line-schema": _STREAMED,
}
_BATCH_OK = response(
    "Results in order, or with Accept: application/x-ndjson as they finish", _RESULTS
)
_BATCH_OK["content"][NDJSON] = _LINES

BATCH_DOCS: Docs = {
    "operation_id": "score_batch",
    "openapi_extra": request_body(_BATCH),
    "responses": {
        200: _BATCH_OK,
        **TOO_LARGE,
        422: response("The body is not a batch", DETAIL),
        **FAULT_OF_OURS,
    },
}

_MODEL: Schema = {
    "type": "object",
    "title": "Model",
    "description": "A replica's description of its reward model; the fields depend on the kind.",
    "properties": {
        "name": TEXT,
        "ready": {"type": "boolean", "description": "Whether a replica can score."},
        "kind": TEXT,
        "fingerprint": TEXT,
        "engine": {"type": "object", "description": "Weights, revision, dtype, device, engine."},
        "templates": {"type": "array", "items": TEXT},
        "items": {"type": "integer", "description": "Items in progress or waiting."},
    },
    "required": ["name", "ready"],
}

MODELS_DOCS: Docs = {
    "operation_id": "models",
    "responses": {
        200: response(
            "The reward models",
            exact_object(
                {"models": {"type": "array", "items": _MODEL}, "version": TEXT},
                title="Models",
                additionalProperties=True,  # the fields of OpenAI's format
            ),
        ),
        **FAULT_OF_OURS,
    },
}

HEALTH_DOCS: Docs = {
    "operation_id": "health",
    "responses": {200: response("The HTTP process is up", exact_object({"status": TEXT}))},
}

READY_DOCS: Docs = {
    "operation_id": "ready",
    "responses": {
        200: response(
            "Every reward model has a replica that can score", exact_object({"status": TEXT})
        ),
        **FAULT_OF_OURS,
        503: response("No replica can score yet", exact_object({"status": TEXT, "detail": TEXT})),
    },
}
