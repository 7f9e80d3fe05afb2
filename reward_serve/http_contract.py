"""The HTTP side of the wire contract: status codes, the version header, OpenAPI descriptions."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reward_serve.schema import ScoreRequest, ScoreResult, Status
from reward_serve.version import VERSION_HEADER, __version__

NDJSON = "application/x-ndjson"

_CODES = {Status.INVALID: 422, Status.TIMEOUT: 504, Status.OVERLOADED: 503}


def http_status(status: Status) -> int:
    """The HTTP status code of a single score's status: a judge that failed is still a 200."""
    return _CODES.get(status, 200)


class VersionHeader:
    """ASGI middleware: every reply says which version of the service gave it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; add the header to its reply."""

        async def send_with_version(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[VERSION_HEADER] = __version__
            await send(message)

        await self._app(scope, receive, send_with_version if scope["type"] == "http" else send)


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
