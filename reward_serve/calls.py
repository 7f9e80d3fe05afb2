"""Calls between Serve deployments: how they travel, how they fail, who cancelled them.

By default a call's arguments and result pass through Ray's object store, which is for data that
many read. Requests and results are read once: sent over gRPC, a call takes half the time.
"""

from __future__ import annotations

import asyncio
from typing import Any


def by_value(handle: Any) -> Any:
    """The deployment's handle, for calls over gRPC; as it was where Ray is older than that."""
    try:
        return handle.options(
            _by_reference=False, request_serialization="pickle", response_serialization="pickle"
        )
    except TypeError:
        return handle


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
