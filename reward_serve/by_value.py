"""Calls between Serve deployments that carry what they say.

By default a call's arguments and result pass through Ray's object store, which is for data that
many read. Requests and results are read once: sent over gRPC, a call takes half the time.
"""

from __future__ import annotations

from typing import Any


def by_value(handle: Any) -> Any:
    """The deployment's handle, made so; as it was where Ray is older than that option."""
    try:
        return handle.options(
            _by_reference=False, request_serialization="pickle", response_serialization="pickle"
        )
    except TypeError:
        return handle
