"""What the OpenAPI document says of each path: enough to generate a client from.

Bodies are read by hand and schemas stand in place, made of the contract's own models.
"""

from __future__ import annotations

from typing import Any

from reward_serve.http_contract import NDJSON
from reward_serve.schema import ScoreRequest, ScoreResult
from reward_serve.version import VERSION_HEADER

Schema = dict[str, Any]
Docs = dict[str, Any]

_TEXT: Schema = {"type": "string"}


def _inline(model: Any, mode: str) -> Schema:
    """A model's JSON schema with its definitions in place, as a path item needs it."""
    schema: Schema = model.model_json_schema(ref_template="{model}", mode=mode)
    definitions = schema.pop("$defs", {})

    def resolve(node: Any) -> Any:
        if isinstance(node, list):
            return [resolve(part) for part in node]
        if not isinstance(node, dict):
            return node
        name = node.get("$ref")
        if name == "JsonValue":
            return {}
        return resolve(definitions[name]) if name else {k: resolve(v) for k, v in node.items()}

    resolved: Schema = resolve(schema)
    return resolved


def _object(properties: Schema, **fields: Any) -> Schema:
    """An object of exactly these properties."""
    told = {"type": "object", "properties": properties, "required": list(properties)}
    return {**told, "additionalProperties": False, **fields}


def _extended(schema: Schema, name: str, **properties: Schema) -> Schema:
    """The object with more properties before its own."""
    return {
        **schema,
        "title": name,
        "properties": {**properties, **schema["properties"]},
        "required": [*properties, *schema["required"]],
    }


_REQUEST = _inline(ScoreRequest, "validation")
_RESULT = _inline(ScoreResult, "serialization")
_FAILED = _extended(_RESULT, "FailedScore", detail=_TEXT)
_DETAIL = _object({"detail": _TEXT}, title="Problem")
_REFUSED = {**_FAILED, "title": "RefusedScore", "required": ["detail"]}
_STREAMED = _extended(_RESULT, "StreamedScore", index={"type": "integer", "minimum": 0})
_FAULT = _object({"detail": _TEXT, "request_id": _TEXT}, title="Fault")

_HEADERS: Docs = {
    VERSION_HEADER: {
        "description": "The service's version",
        "required": True,
        "schema": _TEXT,
    }
}
_RETRY_AFTER: Docs = {
    "Retry-After": {
        "description": "Seconds to wait before the next attempt",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
}
_CHALLENGE: Docs = {
    "WWW-Authenticate": {"description": "Bearer", "required": True, "schema": _TEXT}
}


def _response(description: str, schema: Schema, headers: Docs | None = None) -> Docs:
    content = {"application/json": {"schema": schema}}
    return {"description": description, "headers": _HEADERS | (headers or {}), "content": content}


def _body(schema: Schema) -> Docs:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_FAULT_OF_OURS = {500: _response("A fault of the service; its log has the request_id", _FAULT)}
_TOO_LARGE = {413: _response("Body or batch too large; split it", _DETAIL)}

KEY_DOCS: dict[int | str, Any] = {
    401: _response("No key, or a wrong one: send Authorization: Bearer", _DETAIL, _CHALLENGE),
}
"""Where a key is asked for."""

LIMIT_DOCS: dict[int | str, Any] = {
    429: _response("The key's own limit of items in flight", _DETAIL, _RETRY_AFTER),
}
"""Where a key's items are counted."""

SINGLE_DOCS: Docs = {
    "operation_id": "score",
    "openapi_extra": _body(_REQUEST),
    "responses": {
        200: _response("A score, or a judge that failed (status)", _RESULT),
        404: _response("No such model", _DETAIL),
        **_TOO_LARGE,
        422: _response("A field is at fault: detail names it, and the remedy", _REFUSED),
        **_FAULT_OF_OURS,
        503: _response("Overloaded: nothing was done", _FAILED, _RETRY_AFTER),
        504: _response("The deadline timeout_s passed", _FAILED),
    },
}

_BATCH = {
    "type": "object",
    "title": "ScoreBatch",
    "properties": {
        "requests": {
            "type": "array",
            "items": _REQUEST,
            "description": "At most server.max_batch_items. One that is at fault gets the status "
            "invalid, and spoils no more.",
        }
    },
    "required": ["requests"],
}
_RESULTS = _object(
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
        "description": "A line of JSON for each request as it finishes: its result, and its "
        "index in the batch.",
    },
    "x-line-schema": _STREAMED,
}
_BATCH_OK = _response(
    "Results in order; as NDJSON, where that is accepted, as they finish", _RESULTS
)
_BATCH_OK["content"][NDJSON] = _LINES

BATCH_DOCS: Docs = {
    "operation_id": "score_batch",
    "openapi_extra": _body(_BATCH),
    "responses": {
        200: _BATCH_OK,
        **_TOO_LARGE,
        422: _response("The body is not a batch", _DETAIL),
        **_FAULT_OF_OURS,
    },
}

_MODEL: Schema = {
    "type": "object",
    "title": "Model",
    "description": "What a replica says of its reward model; a judge says more than a rule.",
    "properties": {
        "name": _TEXT,
        "ready": {"type": "boolean", "description": "Whether a replica answers."},
        "kind": _TEXT,
        "fingerprint": _TEXT,
        "templates": {"type": "array", "items": _TEXT},
        "items": {"type": "integer", "description": "Items at work or waiting in the replica."},
    },
    "required": ["name", "ready"],
}

MODELS_DOCS: Docs = {
    "operation_id": "models",
    "responses": {
        200: _response(
            "The reward models",
            _object(
                {"models": {"type": "array", "items": _MODEL}, "version": _TEXT}, title="Models"
            ),
        ),
        **_FAULT_OF_OURS,
    },
}

HEALTH_DOCS: Docs = {
    "operation_id": "health",
    "responses": {200: _response("The HTTP process is up", _object({"status": _TEXT}))},
}

READY_DOCS: Docs = {
    "operation_id": "ready",
    "responses": {
        200: _response(
            "Every reward model has a replica that can score", _object({"status": _TEXT})
        ),
        **_FAULT_OF_OURS,
        503: _response("No replica can score yet", _object({"status": _TEXT, "detail": _TEXT})),
    },
}
