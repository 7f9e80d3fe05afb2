"""The FastAPI application: which path calls what, who may ask, and how it is described."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.middleware.authentication import AuthenticationMiddleware

from reward_serve.http.auth import ApiKeys
from reward_serve.http.compat.docs import CHAT_DOCS, GET_REWARD_DOCS, REMOTE_RM_DOCS
from reward_serve.http.docs import (
    BATCH_DOCS,
    HEALTH_DOCS,
    KEY_DOCS,
    LIMIT_DOCS,
    MODELS_DOCS,
    READY_DOCS,
    SINGLE_DOCS,
)
from reward_serve.http.middleware import BearerKeys, Exchange, unauthorized
from reward_serve.version import __version__

if TYPE_CHECKING:
    from reward_serve.http.compat.routes import CompatRoutes
    from reward_serve.http.ingress import Ingress

_BEARER = HTTPBearer(
    scheme_name="API key", description="One of the deployment's API keys", auto_error=False
)


def build_api(
    routes: Ingress,
    key_digests: Mapping[str, str],
    compatible: CompatRoutes,
    compatible_with: Collection[str],
) -> FastAPI:
    """The application over HTTP.

    Args:
        routes: what the paths call.
        compatible: what those of other services call.
        compatible_with: which of those services.
        key_digests: of the API keys, by name. With any, every path but ``/health`` and ``/ready``
            asks for one, ``/docs`` and the paths that do not exist among them.
    """
    api = FastAPI(title="reward_serve", version=__version__)
    if key_digests:
        limited, keyed = _keyed(KEY_DOCS | LIMIT_DOCS), _keyed(KEY_DOCS)
    else:
        limited = keyed = dict
    api.post("/v1/score", **limited(SINGLE_DOCS))(routes.score)
    api.post("/v1/score/batch", **limited(BATCH_DOCS))(routes.score_batch)
    api.get("/v1/models", **keyed(MODELS_DOCS))(routes.list_models)
    if "openai" in compatible_with:
        api.post("/v1/chat/completions", **limited(CHAT_DOCS))(compatible.chat_completions)
    if "openrlhf" in compatible_with:
        api.post("/get_reward", **limited(GET_REWARD_DOCS))(compatible.get_reward)
    if "slime" in compatible_with:
        api.post("/remote_rm", **limited(REMOTE_RM_DOCS))(compatible.remote_rm)
    api.get("/health", **HEALTH_DOCS)(routes.health)
    api.get("/ready", **READY_DOCS)(routes.ready)
    if key_digests:
        keys = BearerKeys(ApiKeys(key_digests))
        api.add_middleware(AuthenticationMiddleware, backend=keys, on_error=unauthorized)
    api.add_middleware(Exchange)  # the last is the outermost
    return api


def _keyed(refusals: dict[int | str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Adds to a path's description the key that the middleware asks for, and its refusals."""

    def described(docs: dict[str, Any]) -> dict[str, Any]:
        responses = {**docs["responses"], **refusals}
        return {**docs, "responses": responses, "dependencies": [Security(_BEARER)]}

    return described
