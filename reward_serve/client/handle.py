"""The client by handle.

    >>> RewardClient("reward").score({"response": "#### 18", "reference": "18"})  # doctest: +SKIP
    ScoreResult(id=None, score=1.0, status=<Status.OK: 'ok'>, ...)

A request's ``model`` is a name or an alias, as over HTTP. A failure is a ``ScoreResult`` with a
``status`` and no score, for example ``error`` for a lost replica. Calls raise only if the
application does not exist or its answer is not of the contract. Requests to a gateway wait for its
applications.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from reward_serve.client.loop import run
from reward_serve.client.transport import (
    GRACE_S,
    NotConnectedError,
    Request,
    ServiceUnavailableError,
    as_dict,
    deadline,
    parse_explanation,
    parse_result,
    warn_of_other_major,
)
from reward_serve.explanation import Explanation
from reward_serve.routing.calls import call_errors
from reward_serve.routing.deployment import handle_of
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import ScoreResult

DEFAULT_APP = "reward"
_CONNECT_S = 30.0


class RewardClient:
    """Scores by handle, from any process of the Ray cluster that serves the application.

    The first call connects; pickling drops the connection.

    Args:
        app: the Serve application's name.
        model: default reward model of requests; by default the application's first.
        timeout_s: default deadline of requests, in seconds.
    """

    def __init__(
        self, app: str = DEFAULT_APP, model: str | None = None, timeout_s: float = 60.0
    ) -> None:
        self._app = app
        self._model = model
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._dispatcher: Dispatcher | None = None

    def score(self, request: Request) -> ScoreResult:
        """``score_batch`` of one request."""
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """Score several requests, in order. In an event loop, use ``ascore_batch``.

        Raises:
            ServiceUnavailableError: the application does not exist, or its answer is invalid.
            NotConnectedError: Ray is not installed, or there is no cluster.
        """
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        return self._parsed(run(self._connected(bodies).batch(bodies)))

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        return (await self.ascore_batch([request]))[0]

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        return self._parsed(await (await self._aconnected(bodies)).batch(bodies))

    def explain(self, request: Request, tokens: bool = False) -> Explanation:
        """Explain the result of one request. In an event loop, use ``aexplain``.

        Args:
            request: as for ``score``.
            tokens: whether to include the prompts' tokens.

        Raises:
            ServiceUnavailableError: the application does not exist, or its answer is invalid.
        """
        body = {**as_dict(request, self._timeout_s), "tokens": tokens}
        return self._explanation(run(self._connected([body]).explain(body)))

    async def aexplain(self, request: Request, tokens: bool = False) -> Explanation:
        """``explain``, awaited."""
        body = {**as_dict(request, self._timeout_s), "tokens": tokens}
        return self._explanation(await (await self._aconnected([body])).explain(body))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._app, self._model, self._timeout_s)

    def _connected(self, bodies: Sequence[dict[str, Any]]) -> Dispatcher:
        with self._lock:  # a handle's first use is not thread-safe
            if self._dispatcher is None:
                try:
                    self._dispatcher = self._connect(min(deadline(bodies), _CONNECT_S))
                except ImportError as error:
                    raise NotConnectedError(
                        f"app {self._app!r}: asking by handle needs Ray ({error}); install the "
                        'cluster\'s version of "ray[serve]", or ask over HTTP (REWARD_SERVE_URL)'
                    ) from error
                except ConnectionError as error:
                    raise NotConnectedError(
                        f"app {self._app!r}: this process belongs to no Ray cluster, and none runs "
                        "on this machine; set RAY_ADDRESS or call ray.init first, or ask over HTTP "
                        "(REWARD_SERVE_URL)"
                    ) from error
                except call_errors() as error:
                    raise ServiceUnavailableError(
                        f"app {self._app!r}: {type(error).__name__}: {error}; is it deployed on "
                        "the cluster that this process belongs to (RAY_ADDRESS)?"
                    ) from error
            return self._dispatcher

    async def _aconnected(self, bodies: Sequence[dict[str, Any]]) -> Dispatcher:
        if self._dispatcher is not None:
            return self._dispatcher
        return await asyncio.to_thread(self._connected, bodies)

    def _connect(self, timeout_s: float) -> Dispatcher:
        about = handle_of(self._app).models.remote().result(timeout_s=timeout_s)
        warn_of_other_major(about["version"])
        applications, aliases = about["applications"], about["aliases"]
        model = aliases.get(self._model, self._model) or next(iter(applications))
        if model not in applications:
            raise ServiceUnavailableError(
                f"app {self._app!r} has no model {model!r}; choose from {', '.join(applications)}",
                status_code=404,
            )
        # Behind a gateway, each model has an application of its own.
        handles = {name: handle_of(app, name) for name, app in applications.items()}
        return Dispatcher(handles, aliases, default=model, grace_s=GRACE_S, detached=True)

    def _explanation(self, content: Any) -> Explanation:
        return parse_explanation(content, f"app {self._app!r}")

    def _parsed(self, contents: Sequence[Any]) -> list[ScoreResult]:
        return [parse_result(content, f"app {self._app!r}") for content in contents]
