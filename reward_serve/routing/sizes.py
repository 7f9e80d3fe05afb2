"""Estimate the size of items and split batches to fit Serve's message limit.

Serve's gRPC messages are limited to 4 MiB (``RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH``), for
calls and for results. Calls use at most half of it, because results echo ``metadata`` and add
fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

MESSAGE_BYTES = 2 * 2**20
"""Maximum bytes of items in one call; a larger item is refused."""

_OVERHEAD = 16
_ENDLESS = 16 * 2**20


def size_of(value: object) -> int:
    """An upper bound on the message bytes of JSON-like data; an estimate for other data.

    Counting stops at 16 MiB, as data that contain themselves have no end.
    """
    total = 0
    left: list[Iterable[object]] = [(value,)]
    while left and total < _ENDLESS:
        for part in left.pop():
            total += _OVERHEAD
            if isinstance(part, str):
                total += len(part) if part.isascii() else 4 * len(part)
            elif isinstance(part, dict):
                left += part, part.values()
            elif isinstance(part, list | tuple):
                left.append(part)
            elif isinstance(part, int):
                total += part.bit_length() // 8
    return total


def bounded(
    items: Sequence[Item], size: Callable[[Item], int], most_bytes: int = MESSAGE_BYTES
) -> list[tuple[Sequence[Item], int]]:
    """Split items, in order, into parts of at most ``most_bytes``; returns each with its bytes.

    A larger item forms a part by itself.
    """
    parts: list[tuple[Sequence[Item], int]] = []
    start = total = 0
    for at, item in enumerate(items):
        bytes_ = size(item)
        if at > start and total + bytes_ > most_bytes:
            parts.append((items[start:at], total))
            start, total = at, 0
        total += bytes_
    parts.append((items[start:], total))
    return parts
