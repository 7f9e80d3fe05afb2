"""Calls one reward model's deployment: splits a batch over its replicas and joins the results.

Each call runs a method of ``replica.deployment.RewardReplica`` in another process, such as
``RewardReplica.score_batch``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import Context
from itertools import chain
from typing import Any
from uuid import uuid4

from reward_serve.routing.placement import MESSAGE_BYTES, Placement, Share, known_replicas, size_of
from reward_serve.schema import GroupResult, ScoreResult, Status, echoes, failure, longest_timeout_s


class NoAnswerError(Exception):
    """No replica answered a call.

    Attributes:
        status: ``timeout``, ``overloaded`` or ``error``; ``invalid`` if a retry cannot help.
        reason: why the call failed.
    """

    def __init__(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason

    @property
    def details(self) -> dict[str, Any] | None:
        """The details of the results, by which ``is_answer`` tells them from a replica's own."""
        return {"unanswered": True} if self.status in (Status.TIMEOUT, Status.ERROR) else None


def is_answer(result: ScoreResult | GroupResult) -> bool:
    """Whether a result shows that its model's replicas answer."""
    return not (result.details or {}).get("unanswered")


async def answer_of(call: Any, until: float) -> Any:
    """Await a call until ``until`` on the event loop's clock.

    The call is cancelled if the time is up or the caller is cancelled.

    Raises:
        NoAnswerError: the call failed or timed out.
    """
    try:
        async with asyncio.timeout_at(until):
            return await call
    except BaseException as error:
        if not isinstance(error, (asyncio.CancelledError, *call_errors())):
            raise
        call.cancel()
        raise no_answer(error) from error


def no_answer(error: BaseException) -> NoAnswerError:
    """The ``NoAnswerError`` for an exception; re-raises the caller's own cancellation."""
    from ray.serve.exceptions import BackPressureError

    if isinstance(error, asyncio.CancelledError) and cancelled_by_caller():
        raise error
    status, reason = Status.ERROR, f"the replica was lost ({type(error).__name__}); retry"
    if isinstance(error, TimeoutError):
        status, reason = Status.TIMEOUT, "no replica answered in time"
    elif isinstance(error, BackPressureError):
        status = Status.OVERLOADED
        reason = "every replica is at its limit of calls; retry after a pause"
    elif _is_too_large(error):
        status, reason = Status.INVALID, "the results exceed 4 MiB; send fewer items at once"
    failed = NoAnswerError(status, reason)
    failed.__cause__ = error
    return failed


def _is_too_large(error: BaseException) -> bool:
    from grpc import StatusCode  # type: ignore[import-untyped]

    code = getattr(error, "code", None)
    return callable(code) and code() is StatusCode.RESOURCE_EXHAUSTED


def call_errors() -> tuple[type[BaseException], ...]:
    """The exceptions of a call whose replica is gone, refuses it or does not answer in time."""
    import grpc
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    return TimeoutError, RayError, RayServeException, grpc.RpcError


def cancelled_by_caller() -> bool:
    """Whether a CancelledError comes from cancelling this task, not from the called replica."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


logger = logging.getLogger("ray.serve")

REPLICA_GRACE_S = 2.0  # replicas enforce the deadline; this bounds calls that never reach one

Result = dict[str, Any]
Chunks = AsyncGenerator[list[Result], None]


class DeploymentClient:
    """Calls the replicas of one deployment. If a replica does not answer, its items fail.

    Ray's consistent-hash router identifies a waiting call by the id of the Serve request that makes
    it, and would answer only one of several calls with the same id. Each of the calls of a split
    batch is therefore made in a new context, which gives it an id of its own. A single call keeps
    its request's id, under which it is logged.

    Args:
        handle: the Serve handle. The constructor initialises it if it is unused, which must not
            happen in two threads at once.
        grace_s: how long to wait beyond the deadline, which the replica enforces.
        detached: for clients: single calls get a new context too, as a client makes several at
            once, and unanswered items are logged at DEBUG, as the client reports the outage.
    """

    def __init__(
        self, handle: Any, grace_s: float = REPLICA_GRACE_S, detached: bool = False
    ) -> None:
        # Over gRPC a call takes half the time of one through Ray's object store, the default, which
        # suits data with several readers.
        self._handle = handle.options(
            _by_reference=False, request_serialization="pickle", response_serialization="pickle"
        )
        self._grace_s = grace_s
        self._detached = detached
        self._placement = Placement()

    async def score_batch(self, items: Sequence[Any]) -> list[Result]:
        """Score the items with ``RewardReplica.score_batch``; a result for each, in order."""
        with self._placed(items) as shares:
            answers = await asyncio.gather(
                *(self._score(share, [items[i] for i in share.indices]) for share in shares)
            )
        return joined([share.indices for share in shares], answers)

    async def score_stream(self, items: Mapping[int, Any]) -> Chunks:
        """The chunks of ``RewardReplica.score_stream``, each result with its key as ``index``."""
        keys, values = list(items), list(items.values())
        with self._placed(values) as shares:
            streams = [
                self._stream(share, {keys[i]: values[i] for i in share.indices}) for share in shares
            ]
            async with aclosing(merged(streams)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def call(self, method: str, *arguments: Any, within_s: float) -> Any:
        """Call a method of any replica.

        Raises:
            NoAnswerError: no replica answered.
        """
        until = asyncio.get_running_loop().time() + within_s
        return await self._asked(method, Share(None, (), size_of(arguments)), until, *arguments)

    async def explain(self, request: Any) -> Result:
        """Explain a request's result with ``RewardReplica.explain``; raises like ``call``."""
        within_s = longest_timeout_s([request]) + REPLICA_GRACE_S
        answer: Result = await self.call("explain", request, within_s=within_s)
        return answer

    async def score_group(self, request: Any) -> Result:
        """Score a group with ``RewardReplica.score_group``.

        It is routed to the replica of its group's single requests.

        Raises:
            NoAnswerError: no replica answered.
        """
        with self._placed([request]) as (share,):
            until = self._until([request])
            answer: Result = await self._asked("score_group", share, until, request)
        return answer

    @contextmanager
    def _placed(self, items: Sequence[Any]) -> Iterator[list[Share]]:
        """The batch split into calls, which are counted as load until the block ends."""
        replicas = known_replicas(self._handle.app_name, self._handle.deployment_name)
        shares = self._placement.shares(items, replicas)
        if len(shares) > 1:
            batch = uuid4().hex
            for share in shares:
                share.batch = batch
        try:
            yield shares
        finally:
            for share in shares:
                self._placement.done(share)

    def _begin(self, method: str, share: Share, *arguments: Any, **options: Any) -> Any:
        """Start a call to the share's replica; the id of a split batch is the last argument.

        Raises:
            NoAnswerError: the call is one item that no message carries.
        """
        if share.size > MESSAGE_BYTES:
            raise NoAnswerError(
                Status.INVALID,
                f"request: has {share.size} bytes with its metadata; send at most {MESSAGE_BYTES}",
            )
        if share.replica is not None:
            options["session_id"] = share.replica
        handle = self._handle.options(**options) if options else self._handle
        remote = getattr(handle, method).remote
        if share.batch is not None:
            arguments = (*arguments, share.batch)
        if self._detached or share.batch is not None:
            return Context().run(remote, *arguments)
        return remote(*arguments)

    async def _asked(self, method: str, share: Share, until: float, *arguments: Any) -> Any:
        return await answer_of(self._begin(method, share, *arguments), until)

    async def _score(self, share: Share, items: list[Any]) -> list[Result]:
        until = self._until(items)
        try:
            answer: list[Result] = await self._asked("score_batch", share, until, items)
            return answer
        except NoAnswerError as error:
            return self._failures(items, error)
        finally:
            self._placement.done(share)

    async def _stream(self, share: Share, missing: dict[int, Any]) -> Chunks:
        keys, items = list(missing), list(missing.values())
        until, call = self._until(items), None
        try:
            call = self._begin("score_stream", share, items, stream=True)
            chunks = aiter(call)
            while True:  # until StopAsyncIteration
                # The timeout excludes the yield, where it could cancel the reader.
                async with asyncio.timeout_at(until):
                    chunk = await anext(chunks)
                for result in chunk:
                    result["index"] = keys[result["index"]]
                    del missing[result["index"]]
                yield chunk
        except (asyncio.CancelledError, Exception) as error:
            fault = error if isinstance(error, NoAnswerError) else no_answer(error)
            if missing:
                failures = self._failures(missing.values(), fault)
                yield [{"index": i, **each} for i, each in zip(missing, failures, strict=True)]
        finally:
            if missing and call is not None:
                call.cancel()
            self._placement.done(share)

    def _until(self, items: Iterable[Any]) -> float:
        """The deadline of the items plus the grace period, on the event loop's clock."""
        return asyncio.get_running_loop().time() + longest_timeout_s(items) + self._grace_s

    def _failures(self, items: Iterable[Any], error: NoAnswerError) -> list[Result]:
        model, cause = self._handle.deployment_name, error.__cause__
        fields = {"details": error.details, "model": model}
        failures = [failure(error.status, error.reason, **fields, **echoes(item)) for item in items]
        level = logging.DEBUG if self._detached else logging.WARNING
        logger.log(level, "reward model %s: %d items unanswered: %r", model, len(failures), cause)
        return [result.model_dump(mode="json") for result in failures]


def joined(parts: Iterable[Sequence[int]], answers: Iterable[Sequence[Result]]) -> list[Result]:
    """Join the results of a batch that was split into parts, each given as item indices."""
    pairs = (zip(*both, strict=True) for both in zip(parts, answers, strict=True))
    found: dict[int, Result] = dict(chain.from_iterable(pairs))
    return [found[index] for index in range(len(found))]


async def merged(streams: Iterable[Chunks]) -> Chunks:
    """Merge the streams' chunks as they arrive; closes all streams at the end or on an error."""
    ready: asyncio.Queue[list[Result] | Exception | None] = asyncio.Queue(maxsize=16)

    async def pump(stream: Chunks) -> None:
        end = None
        try:
            async with aclosing(stream):
                async for chunk in stream:
                    await ready.put(chunk)
        except Exception as error:
            end = error
        await ready.put(end)

    tasks = [asyncio.create_task(pump(stream)) for stream in streams]
    try:
        for _ in tasks:
            while (chunk := await ready.get()) is not None:
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
    finally:
        for task in tasks:
            task.cancel()


def handle_of(app: str, deployment: str | None = None) -> Any:
    """The Serve handle of an application's ingress, or of a deployment, which may not exist yet.

    Raises:
        ConnectionError: this process is not in a Ray cluster, and none was found. Serve itself
            would start one, in which nothing is deployed.
        ImportError: Ray is not installed.
    """
    import ray
    from ray import serve

    if not ray.is_initialized():
        ray.init(address="auto", namespace="serve")
    if deployment is None:
        return serve.get_app_handle(app)
    return serve.get_deployment_handle(deployment, app, _check_exists=False)
