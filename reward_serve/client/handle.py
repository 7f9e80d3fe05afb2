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
import math
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from reward_serve.client.loop import in_event_loop, in_thread, run
from reward_serve.client.transport import (
    GRACE_S,
    NotConnectedError,
    Request,
    ServiceUnavailableError,
    as_dict,
    deadline,
    own_results,
    parse_explanation,
    parse_result,
    warn_of_other_major,
    with_ids,
)
from reward_serve.explanation import Explanation
from reward_serve.routing.calls import call_errors
from reward_serve.routing.deployment import forked_with_ray, handle_of
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import ScoreResult, Status, echoes, failure

DEFAULT_APP = "reward"
_CONNECT_S = 30.0

Answer = TypeVar("Answer")


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
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connecting: Future[Dispatcher] | None = None
        self._max_batch_items: float = math.inf
        self._dispatcher: Dispatcher | None = None

    def score(self, request: Request) -> ScoreResult:
        """``score_batch`` of one request."""
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """Score several requests, in order. In an event loop, use ``ascore_batch``.

        Raises:
            ServiceUnavailableError: the application does not exist, or its answer is invalid.
            NotConnectedError: Ray is not installed, there is no cluster, or this process was forked
                from one that is connected to it.
            RuntimeError: the caller runs in an event loop.
        """
        return _blocking(lambda: self.ascore_batch(requests))

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        return (await self.ascore_batch([request]))[0]

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        dispatcher = await self._connected(bodies)
        if len(bodies) > self._max_batch_items:  # split into calls, it might fit
            most = self._max_batch_items
            reason = f"requests: {len(bodies)} items; the limit is {most}, so split the batch"
            return [failure(Status.INVALID, reason, **echoes(body)) for body in bodies]
        sent = with_ids(bodies)
        contents = await dispatcher.batch(sent)
        where = f"app {self._app!r}"
        results = [parse_result(content, where) for content in contents]
        return own_results(results, sent, bodies, where)

    def explain(self, request: Request, tokens: bool = False) -> Explanation:
        """Explain the result of one request. In an event loop, use ``aexplain``.

        Args:
            request: as for ``score``.
            tokens: whether to include the prompts' tokens.

        Raises:
            ServiceUnavailableError: the application does not exist, or its answer is invalid.
        """
        return _blocking(lambda: self.aexplain(request, tokens))

    async def aexplain(self, request: Request, tokens: bool = False) -> Explanation:
        """``explain``, awaited."""
        body = {**as_dict(request, self._timeout_s), "tokens": tokens}
        content = await (await self._connected([body])).explain(body)
        return parse_explanation(content, f"app {self._app!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._app, self._model, self._timeout_s)

    async def _connected(self, bodies: Sequence[dict[str, Any]]) -> Dispatcher:
        """The connection, which one thread makes for all callers; each waits for its deadline."""
        if forked_with_ray():
            raise NotConnectedError(
                f"app {self._app!r}: this process was forked from one that is connected to Ray, "
                "which fork() does not support; start it with spawn, or ask over HTTP"
            )
        if self._pid != os.getpid():
            self._start()
        if self._dispatcher is not None:
            return self._dispatcher
        with self._lock:
            if self._connecting is None or (
                self._connecting.done() and self._connecting.exception() is not None
            ):
                self._connecting = in_thread(self._connect)
            connecting = asyncio.wrap_future(self._connecting)
        connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([connecting], timeout=deadline(bodies))
        if not connecting.done():
            raise ServiceUnavailableError(
                f"app {self._app!r}: no connection to the Ray cluster after {deadline(bodies):g} s"
            )
        try:
            self._dispatcher = connecting.result()
        except ImportError as error:
            raise NotConnectedError(
                f"app {self._app!r}: asking by handle needs Ray ({error}); install the cluster's "
                'version of "ray[serve]", or ask over HTTP (REWARD_SERVE_URL)'
            ) from error
        except ConnectionError as error:
            raise NotConnectedError(
                f"app {self._app!r}: this process belongs to no Ray cluster, and none runs on this "
                "machine; set RAY_ADDRESS or call ray.init first, or ask over HTTP "
                "(REWARD_SERVE_URL)"
            ) from error
        except call_errors() as error:
            raise ServiceUnavailableError(
                f"app {self._app!r}: {type(error).__name__}: {error}; is it deployed on the "
                "cluster that this process belongs to (RAY_ADDRESS)?"
            ) from error
        return self._dispatcher

    def _connect(self) -> Dispatcher:
        about = handle_of(self._app).models.remote().result(timeout_s=_CONNECT_S)
        self._max_batch_items = about.get("max_batch_items", self._max_batch_items)
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


def _blocking(ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    if in_event_loop():
        raise RuntimeError("this would block the running event loop; await the async method")
    return run(ask())
