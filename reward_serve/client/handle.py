"""The transport by handle."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from reward_serve.client.transport import (
    SERVICE_GRACE_S,
    TOO_LARGE,
    NotConnectedError,
    ServiceUnavailableError,
    answer_timeout_s,
    encoded,
    parse_explanation,
    parse_group,
    parse_results,
)
from reward_serve.explanation import Explanation
from reward_serve.routing.deployment_client import call_errors, handle_of
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import GroupResult, ScoreResult

DEFAULT_APP = "reward"
_CONNECT_S = 30.0

_forked_with_ray = False  # whether this process was forked from one connected to Ray


def _note_fork() -> None:
    global _forked_with_ray
    ray = sys.modules.get("ray")
    _forked_with_ray = _forked_with_ray or (ray is not None and ray.is_initialized())


os.register_at_fork(after_in_child=_note_fork)


class HandleTransport:
    """Scores by handle, from any process of the Ray cluster that serves the application.

    The first call connects. If a replica is lost, its items are
    ``error`` results. Requests to a gateway wait until the applications behind it are deployed.

    Args:
        app: the Serve application's name.
    """

    def __init__(self, app: str) -> None:
        self.name = f"app {app!r}"
        self._app = app
        self._connecting: Future[Dispatcher] | None = None
        self._dispatcher: Dispatcher | None = None
        self._max_batch_items: float = math.inf

    async def ascore_batch(self, requests: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        """A result for each request, in order.

        Raises:
            ServiceUnavailableError: the application does not exist, its answer is invalid, or it
                accepts no batch of this size.
            NotConnectedError: Ray Serve is not installed, there is no cluster, or this process was
                forked from one that is connected to it.
        """
        dispatcher = await self._connected(requests)
        if len(requests) > self._max_batch_items:  # each replica sees only its part
            raise ServiceUnavailableError(
                f"{self.name}: requests: {len(requests)} items; the limit is "
                f"server.max_batch_items: {self._max_batch_items}, so split the batch",
                status_code=TOO_LARGE,
            )
        return parse_results(await dispatcher.score_batch(list(requests)), requests, self.name)

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        """The explanation of a request's result; raises as ``ascore_batch``."""
        dispatcher = await self._connected([request])
        return parse_explanation(await dispatcher.explain(request), self.name)

    async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
        """The result of one group; raises as ``ascore_batch``."""
        dispatcher = await self._connected([request])
        return parse_group(await dispatcher.score_group(request), request, self.name)

    async def _connected(self, bodies: Sequence[dict[str, Any]]) -> Dispatcher:
        """The connection, which one thread opens; callers wait until their own deadlines."""
        encoded(bodies, bodies)  # refuses what JSON cannot carry
        if _forked_with_ray:  # the call would hang
            raise NotConnectedError(
                f"{self.name}: this process was forked from one that is connected to Ray, "
                "which fork() does not support; start it with spawn, or score over HTTP"
            )
        if self._dispatcher is not None:
            return self._dispatcher
        if self._connecting is None or (
            self._connecting.done() and self._connecting.exception() is not None
        ):
            self._connecting = _in_daemon(self._connect)
        timeout_s = answer_timeout_s(bodies)
        try:
            async with asyncio.timeout(timeout_s):
                self._dispatcher = await asyncio.wrap_future(self._connecting)
        except ImportError as error:
            raise NotConnectedError(
                f"{self.name}: scoring by handle needs Ray Serve ({error}); install the cluster's "
                'version of "ray[serve]", or score over HTTP (REWARD_SERVE_URL)'
            ) from error
        except ConnectionError as error:
            raise NotConnectedError(
                f"{self.name}: this process is not in a Ray cluster, and none was found on this "
                "machine; set RAY_ADDRESS or call ray.init first, or score over HTTP "
                "(REWARD_SERVE_URL)"
            ) from error
        except call_errors() as error:
            why = str(error).rstrip(".") or f"no connection within {timeout_s:g} s"
            raise ServiceUnavailableError(
                f"{self.name}: {type(error).__name__}: {why}; is it deployed on the cluster that "
                "this process belongs to (RAY_ADDRESS)? To score over HTTP, set REWARD_SERVE_URL"
            ) from error
        return self._dispatcher

    def _connect(self) -> Dispatcher:
        import reward_serve.routing.router  # noqa: F401 which Serve loads at the first call

        about = handle_of(self._app).models.remote().result(timeout_s=_CONNECT_S)
        self._max_batch_items = about.get("max_batch_items", self._max_batch_items)
        # Behind a gateway, each model has an application of its own.
        handles = {name: handle_of(app, name) for name, app in about["applications"].items()}
        return Dispatcher(handles, about["aliases"], grace_s=SERVICE_GRACE_S, detached=True)


def _in_daemon(work: Callable[[], Dispatcher]) -> Future[Dispatcher]:
    """Run work in a daemon thread; unlike an executor's, it does not keep a process from ending."""
    future: Future[Dispatcher] = Future()
    future.set_running_or_notify_cancel()  # a caller that leaves does not cancel it

    def target() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=target, name="reward-serve connecting", daemon=True).start()
    return future
