"""The client by handle, and its transport.

>>> RewardClient("reward").score({"response": "#### 18", "reference": "18"})  # doctest: +SKIP
ScoreResult(id=None, score=1.0, status=<Status.OK: 'ok'>, ...)
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from reward_serve.client.client import Client
from reward_serve.client.outcomes import OnFailure
from reward_serve.client.transport import (
    SERVICE_GRACE_S,
    TOO_LARGE,
    NotConnectedError,
    ServiceUnavailableError,
    answer_timeout_s,
    check_ids,
    encoded,
    in_thread,
    parse_explanation,
    parse_group,
    parse_result,
    process_lock,
    warn_of_other_major,
    with_time_left,
)
from reward_serve.explanation import Explanation
from reward_serve.routing.dispatch import Dispatcher, call_errors, handle_of
from reward_serve.schema import (
    DEFAULT_TIMEOUT_S,
    GroupResult,
    ScoreResult,
    echoes,
    group_failure,
    longest_timeout_s,
    size_of_group,
)

DEFAULT_APP = "reward"
_CONNECT_S = 30.0

_forked_with_ray = False  # whether this process was forked from one connected to Ray


def _note_fork() -> None:
    global _forked_with_ray
    ray = sys.modules.get("ray")
    _forked_with_ray = _forked_with_ray or (ray is not None and ray.is_initialized())


os.register_at_fork(after_in_child=_note_fork)


class RewardClient(Client):
    """A ``Client`` by handle, for processes of the Ray cluster that serves the application.

    Args:
        app: the Serve application's name.
        model: default reward model of requests, as a name or an alias; by default the
            application's first.
        timeout_s: default deadline of a request, over all attempts, in seconds.
        on_failure: how to handle a request without a score; by default, the typed failure is
            returned.
        **settings: other arguments of ``Client``.
    """

    def __init__(
        self,
        app: str = DEFAULT_APP,
        model: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        *,
        on_failure: OnFailure | str = "none",
        **settings: Any,
    ) -> None:
        super().__init__(
            HandleTransport(app),
            model=model, timeout_s=timeout_s, on_failure=on_failure, **settings,
        )  # fmt: skip


class HandleTransport:
    """Scores by handle, from any process of the Ray cluster that serves the application.

    The first call connects; pickling drops the connection. If a replica is lost, its items are
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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._app,)

    async def ascore_batch(self, requests: Sequence[dict[str, Any]]) -> list[ScoreResult]:
        """A result for each request, in order.

        Raises:
            ServiceUnavailableError: the application does not exist, its answer is invalid, or it
                accepts no batch of this size.
            NotConnectedError: Ray Serve is not installed, there is no cluster, or this process was
                forked from one that is connected to it.
        """
        dispatcher, requests = await self._connected(requests)
        if len(requests) > self._max_batch_items:  # each replica sees only its part
            raise ServiceUnavailableError(
                f"{self.name}: requests: {len(requests)} items; the limit is "
                f"server.max_batch_items: {self._max_batch_items}, so split the batch",
                status_code=TOO_LARGE,
            )
        refusals = list(map(_refused, requests))
        sent = [body for body, refused in zip(requests, refusals, strict=True) if refused is None]
        contents = iter(await dispatcher.score_batch(sent) if sent else ())
        results = [refused or parse_result(next(contents), self.name) for refused in refusals]
        check_ids(results, requests, self.name)
        return results

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        """The explanation of a request's result; raises as ``ascore_batch``."""
        if refused := _refused(request):
            return Explanation(result=refused)
        dispatcher, (request,) = await self._connected([request])
        content = await dispatcher.explain(request)
        return parse_explanation(content, self.name)

    async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
        """The result of one group; raises as ``ascore_batch``."""
        if refused := _refused(request):
            return group_failure(refused, size_of_group(request), **echoes(request))
        dispatcher, (request,) = await self._connected([request])
        content = await dispatcher.score_group(request)
        return parse_group(content, request, self.name)

    async def _connected(
        self, bodies: Sequence[dict[str, Any]]
    ) -> tuple[Dispatcher, Sequence[dict[str, Any]]]:
        """The connection, and the requests with the rest of their deadlines.

        One thread opens it; callers wait for it until their own deadlines.
        """
        if _forked_with_ray:  # the call would hang
            raise NotConnectedError(
                f"{self.name}: this process was forked from one that is connected to Ray, "
                "which fork() does not support; start it with spawn, or score over HTTP"
            )
        if self._dispatcher is not None:
            return self._dispatcher, bodies
        began = time.monotonic()
        with process_lock():
            if self._connecting is None or (
                self._connecting.done() and self._connecting.exception() is not None
            ):
                self._connecting = in_thread(self._connect)
            connecting = asyncio.wrap_future(self._connecting)
        connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        timeout_s = answer_timeout_s(bodies)
        await asyncio.wait([connecting], timeout=timeout_s)
        if not connecting.done():
            raise ServiceUnavailableError(
                f"{self.name}: no connection to the Ray cluster after {timeout_s:g} s"
            )
        try:
            self._dispatcher = connecting.result()
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
            raise ServiceUnavailableError(
                f"{self.name}: {type(error).__name__}: {str(error).rstrip('.')}; is it deployed on "
                "the cluster that this process belongs to (RAY_ADDRESS)? To score over HTTP, set "
                "REWARD_SERVE_URL"
            ) from error
        waited_s = time.monotonic() - began
        return self._dispatcher, [
            with_time_left(body, longest_timeout_s([body]) - waited_s) for body in bodies
        ]

    def _connect(self) -> Dispatcher:
        import reward_serve.routing.router  # noqa: F401 which Serve loads at the first call

        about = handle_of(self._app).models.remote().result(timeout_s=_CONNECT_S)
        self._max_batch_items = about.get("max_batch_items", self._max_batch_items)
        warn_of_other_major(about["version"])
        # Behind a gateway, each model has an application of its own.
        handles = {name: handle_of(app, name) for name, app in about["applications"].items()}
        return Dispatcher(handles, about["aliases"], grace_s=SERVICE_GRACE_S, detached=True)


def _refused(body: dict[str, Any]) -> ScoreResult | None:
    """The refusal of a request that is not plain data; else None."""
    found = encoded(body)
    return found if isinstance(found, ScoreResult) else None
