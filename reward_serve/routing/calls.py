"""Calls between Serve deployments: how they travel, how they fail, who cancelled them.

By default a call's arguments and result pass through Ray's object store, which is for data that
many read. Requests and results are read once: sent over gRPC, a call takes half the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reward_serve.routing.placement import Placement, Share, replicas_of


def by_value(handle: Any) -> Any:
    """The deployment's handle, for calls over gRPC; as it was where Ray is older than that."""
    try:
        return handle.options(
            _by_reference=False, request_serialization="pickle", response_serialization="pickle"
        )
    except TypeError:
        return handle


class GroupedHandle:
    """A deployment's handle for batches, which are split over the replicas by group.

    Args:
        handle: Serve's own; its first use, so not from two threads at a time.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = by_value(handle)
        self._placement = Placement()

    @property
    def application(self) -> str:
        """The name of the application that the deployment is of."""
        name: str = self._handle.app_name
        return name

    @contextmanager
    def shares(self, items: Sequence[object]) -> Iterator[list[Share]]:
        """The batch in parts, one a call, for as long as they are under way."""
        replicas = replicas_of(self._handle.app_name, self._handle.deployment_name)
        shares = self._placement.shares(items, replicas)
        try:
            yield shares
        finally:
            for share in shares:
                self._placement.done(share)

    def done(self, share: Share) -> None:
        """The share is under way no more, though others may be."""
        self._placement.done(share)

    def to(self, share: Share, stream: bool = False) -> Any:
        """The handle whose calls go where the share belongs."""
        options: dict[str, Any] = {"stream": True} if stream else {}
        if share.replica is not None:
            options["session_id"] = str(share.replica)
        return self._handle.options(**options) if options else self._handle

    def anywhere(self) -> Any:
        """The handle whose calls go where Serve chooses."""
        return self._handle


def call_errors() -> tuple[type[BaseException], ...]:
    """What a call raises when its replica is gone, refuses it or is not to be reached in time."""
    import grpc  # type: ignore[import-untyped]
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    return TimeoutError, RayError, RayServeException, grpc.RpcError


def cancelled_by_caller() -> bool:
    """Whether a CancelledError is this task's own; else the call's other end was cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
