"""The HTTP side of the wire contract: status codes, bodies, OpenAPI descriptions."""

from __future__ import annotations

import json
from typing import Any

import orjson
from fastapi import HTTPException, Request

from reward_serve.fields import deeper_than
from reward_serve.schema import ScoreRequest, ScoreResult, Status

NDJSON = "application/x-ndjson"
MAX_BODY_DEPTH = 64

_CODES = {Status.INVALID: 422, Status.TIMEOUT: 504, Status.OVERLOADED: 503}


def http_status(status: Status) -> int:
    """The HTTP status code of a single score's status: a judge that failed is still a 200."""
    return _CODES.get(status, 200)


async def read_json(request: Request, limit: int) -> Any:
    """The body as JSON data, of ``limit`` bytes at most.

    Raises:
        HTTPException: 413 or 422, with a ``detail`` that names the remedy.
    """
    too_large = HTTPException(413, f"body: over {limit} bytes; split the batch")
    try:
        announced = int(request.headers.get("content-length") or 0)
    except ValueError:
        raise HTTPException(422, "Content-Length: must be a number of bytes") from None
    if announced > limit:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_large
    content = _parsed(body)
    if deeper_than(content, MAX_BODY_DEPTH):
        raise HTTPException(422, f"body: is nested over {MAX_BODY_DEPTH} deep; flatten it")
    return content


def _parsed(body: bytearray) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # orjson refuses a whole batch for one lone surrogate, which is that item's fault.
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise HTTPException(422, f"body: is not JSON: {error}") from None


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inline(model: Any) -> dict[str, Any]:
    """A model's JSON schema with its definitions in place, as a path item needs it."""
    schema: dict[str, Any] = model.model_json_schema(ref_template="{model}")
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

    resolved: dict[str, Any] = resolve(schema)
    return resolved


_REQUEST = _inline(ScoreRequest)
_RESULT = _inline(ScoreResult)
_FAILED = {
    **_RESULT,
    "properties": {"detail": {"type": "string"}, **_RESULT["properties"]},
}
_DETAIL = {"type": "object", "properties": {"detail": {"type": "string"}}, "required": ["detail"]}


def _response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_TOO_LARGE = _response("Body or batch too large", _DETAIL)

KEY_DOCS: dict[int | str, Any] = {
    401: _response("No key, or a wrong one: send Authorization: Bearer", _DETAIL),
    429: _response("The key's own limit; see Retry-After", _DETAIL),
}

SINGLE_DOCS: dict[str, Any] = {
    "openapi_extra": _body(_REQUEST),
    "responses": {
        200: _response("A score, or a judge that failed (status)", _RESULT),
        404: _response("No such model", _DETAIL),
        413: _TOO_LARGE,
        422: _response("A field is at fault", _DETAIL),
        503: _response("Overloaded; see Retry-After", _FAILED),
        504: _response("The deadline passed", _FAILED),
    },
}

BATCH_DOCS: dict[str, Any] = {
    "openapi_extra": _body(
        {
            "type": "object",
            "properties": {"requests": {"type": "array", "items": _REQUEST}},
            "required": ["requests"],
        }
    ),
    "responses": {
        200: {
            "description": "Results in request order; as NDJSON, as they finish, with an index",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {"results": {"type": "array", "items": _RESULT}},
                        "required": ["results"],
                    }
                },
                NDJSON: {"schema": {"type": "string"}},
            },
        },
        413: _TOO_LARGE,
        422: _response("The body is not a batch", _DETAIL),
    },
}
