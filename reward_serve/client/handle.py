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

from reward_serve.calls import by_value, call_errors, cancelled_by_caller
from reward_serve.client.transport import (
    Request,
    ServiceUnavailableError,
    as_dict,
    deadline,
    parse_result,
    warn_of_other_major,
)
from reward_serve.schema import ScoreResult

DEFAULT_APP = "reward"


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
        self._handle: Any = None

    def score(self, request: Request) -> ScoreResult:
        """The result of one request. Not from a running event loop: there, ``ascore``.

        Raises:
            ServiceUnavailableError: no such application, or its replica was lost.
        """
        body = as_dict(request, self._timeout_s)
        call = self._connected().score.remote(body)
        return parse_result(self._wait(call, deadline([body])), self._app)

    def score_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """A result for each request, in order. Not from a running event loop.

        Raises:
            ServiceUnavailableError: no such application, or its replica was lost.
        """
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        call = self._connected().score_batch.remote(bodies)
        return [parse_result(content, self._app) for content in self._wait(call, deadline(bodies))]

    async def ascore(self, request: Request) -> ScoreResult:
        """``score``, awaited."""
        body = as_dict(request, self._timeout_s)
        call = (await self._aconnected()).score.remote(body)
        return parse_result(await self._await(call, deadline([body])), self._app)

    async def ascore_batch(self, requests: Sequence[Request]) -> list[ScoreResult]:
        """``score_batch``, awaited."""
        bodies = [as_dict(request, self._timeout_s) for request in requests]
        call = (await self._aconnected()).score_batch.remote(bodies)
        answer = await self._await(call, deadline(bodies))
        return [parse_result(content, self._app) for content in answer]

    def __getstate__(self) -> dict[str, Any]:
        return {"app": self._app, "model": self._model, "timeout_s": self._timeout_s}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _connected(self) -> Any:
        with self._lock:  # a handle's first use is not safe for threads
            if self._handle is None:
                self._handle = self._connect()
            return self._handle

    async def _aconnected(self) -> Any:
        return self._handle or await asyncio.to_thread(self._connected)

    def _connect(self) -> Any:
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
        if model not in about["models"]:
            raise ServiceUnavailableError(
                f"app {self._app!r} has no model {model!r}; choose of {', '.join(about['models'])}"
            )
        return by_value(serve.get_deployment_handle(model, self._app))

    def _wait(self, call: Any, timeout_s: float) -> Any:
        try:
            return call.result(timeout_s=timeout_s)
        except TimeoutError as error:
            call.cancel()
            raise self._silent(timeout_s) from error
        except call_errors() as error:
            raise self._lost(error) from error

    async def _await(self, call: Any, timeout_s: float) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await call
        except TimeoutError as error:
            call.cancel()
            raise self._silent(timeout_s) from error
        except asyncio.CancelledError as error:
            call.cancel()
            if cancelled_by_caller():
                raise
            raise self._lost(error) from error
        except call_errors() as error:
            raise self._lost(error) from error

    def _silent(self, timeout_s: float) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"app {self._app!r} gave no answer in {timeout_s:g} s")

    def _lost(self, error: BaseException) -> ServiceUnavailableError:
        return ServiceUnavailableError(f"app {self._app!r}: {type(error).__name__}: {error}")
