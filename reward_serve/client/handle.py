"""The client by handle.

    >>> RewardClient("reward").score({"response": "#### 18", "reference": "18"})  # doctest: +SKIP
    ScoreResult(id=None, score=1.0, status=<Status.OK: 'ok'>, ...)

A failure of the judge is a ``ScoreResult`` with a ``status`` and no score. Only a service that
cannot be reached or understood raises.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from reward_serve.client.transport import (
    Request,
    ServiceUnavailableError,
    as_dict,
    deadline,
    parse_result,
    warn_of_other_major,
)
from reward_serve.routing.calls import GroupedHandle, call_errors, cancelled_by_caller
from reward_serve.routing.placement import Share
from reward_serve.schema import ScoreResult, Status, echoes, failure

DEFAULT_APP = "reward"

Answer = list[ScoreResult] | ServiceUnavailableError


class RewardClient:
    """Scores by handle, from any process of the Ray cluster that serves the application.

    The connection is made at the first call, and never pickled.

    Args:
        app: the Serve application's name.
        model: which of its reward models; default the first.
        timeout_s: deadline of requests that name none.
    """

    def __init__(
        self, app: str = DEFAULT_APP, model: str | None = None, timeout_s: float = 60.0
    ) -> None:
        self._app = app
        self._model = model
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._handle: GroupedHandle | None = None

    def score(self, request: Request) -> ScoreResult:
        """The result of one request. Not from a running event loop: there, ``ascore``.

        Raises:
            ServiceUnavailableError: no such application, or its replica was lost.
        """
        return self.score_batch([request])[0]

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """A result for each request, in order. Not from a running event loop.

        Where one of several replicas was lost, its part is failures of status ``error``.

        Raises:
            ServiceUnavailableError: no such application, or its only replica was lost.
        """
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        handle = self._connected()
        with handle.shares(bodies) as shares:
            calls = [_call(handle, bodies, share) for share in shares]
            answers = [self._told(call, deadline(bodies)) for call in calls]
        return _joined(bodies, shares, answers)

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        return (await self.ascore_batch([request]))[0]

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        handle = await self._aconnected()

        async def one(share: Share) -> Answer:
            answer = await self._atold(_call(handle, bodies, share), deadline(bodies))
            handle.done(share)
            return answer

        with handle.shares(bodies) as shares:
            answers = await asyncio.gather(*map(one, shares))
        return _joined(bodies, shares, answers)

    def __getstate__(self) -> dict[str, Any]:
        return {"app": self._app, "model": self._model, "timeout_s": self._timeout_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _connected(self) -> GroupedHandle:
        with self._lock:  # a handle's first use is not safe for threads
            if self._handle is None:
                self._handle = self._connect()
            return self._handle

    async def _aconnected(self) -> GroupedHandle:
        if self._handle is not None:
            return self._handle
        return await asyncio.to_thread(self._connected)

    def _connect(self) -> GroupedHandle:
        from ray import serve

        try:
            about = serve.get_app_handle(self._app).models.remote().result(timeout_s=30)
        except call_errors() as error:
            raise ServiceUnavailableError(
                f"app {self._app!r}: {type(error).__name__}: {error}; is it deployed on the "
                "cluster that this process belongs to (RAY_ADDRESS)?"
            ) from error
        warn_of_other_major(about["version"])
        model = self._model or about["models"][0]
        model = about.get("aliases", {}).get(model, model)
        if model not in about["models"]:
            raise ServiceUnavailableError(
                f"app {self._app!r} has no model {model!r}; choose of {', '.join(about['models'])}",
                status_code=404,
            )
        # Another than its own, where it is a gateway.
        app = about.get("applications", {}).get(model, self._app)
        return GroupedHandle(serve.get_deployment_handle(model, app))

    def _told(self, call: Any, timeout_s: float) -> Answer:
        try:
            return self._parsed(call.result(timeout_s=timeout_s))
        except TimeoutError:
            call.cancel()
            return self._silent(timeout_s)
        except call_errors() as error:
            return self._lost(error)

    async def _atold(self, call: Any, timeout_s: float) -> Answer:
        try:
            async with asyncio.timeout(timeout_s):
                return self._parsed(await call)
        except TimeoutError:
            call.cancel()
            return self._silent(timeout_s)
        except asyncio.CancelledError as error:
            call.cancel()
            if cancelled_by_caller():
                raise
            return self._lost(error)
        except call_errors() as error:
            return self._lost(error)

    def _parsed(self, contents: Sequence[Any]) -> Answer:
        try:
            return [parse_result(content, self._app) for content in contents]
        except ServiceUnavailableError as error:
            return error

    def _silent(self, timeout_s: float) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"app {self._app!r} gave no answer in {timeout_s:g} s")

    def _lost(self, error: BaseException) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"app {self._app!r}: {type(error).__name__}: {error}")


def _call(handle: GroupedHandle, bodies: Sequence[Any], share: Share) -> Any:
    return handle.to(share).score_batch.remote([bodies[index] for index in share.indices])


def _joined(
    bodies: Sequence[Any], shares: Sequence[Share], answers: Sequence[Answer]
) -> list[ScoreResult]:
    """The shares' results in the batch's order; those that none came for are failures."""
    found: dict[int, ScoreResult] = {}
    for share, answer in zip(shares, answers, strict=True):
        if not isinstance(answer, ServiceUnavailableError):
            found |= zip(share.indices, answer, strict=True)
        elif len(shares) == 1:
            raise answer
        else:
            told = {i: echoes(bodies[i]) for i in share.indices}
            found |= {i: failure(Status.ERROR, str(answer), **told[i]) for i in told}
    return [found[index] for index in range(len(bodies))]
