"""The FastAPI application: which path calls what, who may ask, and how it is described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response, Security
from fastapi.security import HTTPBearer
from starlette.middleware.authentication import AuthenticationMiddleware

from reward_serve.auth import ApiKeys
from reward_serve.http_contract import BATCH_DOCS, KEY_DOCS, SINGLE_DOCS
from reward_serve.middleware import BearerKeys, Exchange, unauthorized
from reward_serve.version import __version__

_READY_DOCS: dict[str, Any] = {"responses": {503: {"description": "No replica can score yet"}}}
_BEARER = HTTPBearer(
    scheme_name="API key", description="One of the deployment's API keys", auto_error=False
)


class Routes(Protocol):
    """What the paths call; ``ingress.Ingress``."""

    async def score(self, request: Request) -> Response:
        """``POST /v1/score``."""

    async def score_batch(self, request: Request) -> Response:
        """``POST /v1/score/batch``."""

    async def list_models(self) -> Response:
        """``GET /v1/models``."""

    async def health(self) -> Response:
        """``GET /health``."""

    async def ready(self) -> Response:
        """``GET /ready``."""


def build_api(routes: Routes, key_digests: Mapping[str, str]) -> FastAPI:
    """The application over HTTP.

    Args:
        routes: what the paths call.
        key_digests: of the API keys, by name. With any, every path but ``/health`` and ``/ready``
            asks for one, ``/docs`` and the paths that do not exist among them.
    """
    api = FastAPI(title="reward_serve", version=__version__)
    keyed = _keyed if key_digests else dict
    api.post("/v1/score", **keyed(SINGLE_DOCS))(routes.score)
    api.post("/v1/score/batch", **keyed(BATCH_DOCS))(routes.score_batch)
    api.get("/v1/models", **keyed({}))(routes.list_models)
    api.get("/health")(routes.health)
    api.get("/ready", **_READY_DOCS)(routes.ready)
    if key_digests:
        keys = BearerKeys(ApiKeys(key_digests))
        api.add_middleware(AuthenticationMiddleware, backend=keys, on_error=unauthorized)
    api.add_middleware(Exchange)  # the last is the outermost
    return api


def _keyed(docs: dict[str, Any]) -> dict[str, Any]:
    """A path's description with the key that the middleware asks for."""
    responses = {**docs.get("responses", {}), **KEY_DOCS}
    return {**docs, "responses": responses, "dependencies": [Security(_BEARER)]}
