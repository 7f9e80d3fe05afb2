"""Choose the replica of each item in a batch.

The samples of a group share work (the prompt up to the response, equal answers) if they go to the
same replica. A new group goes to its first choice by rendezvous hashing, which is the same in every
process; adding or removing a replica changes the first choice of only that replica's groups.
Loads are bounded, as in consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam,
2018): beyond 1.1 times the mean of this process's items in flight, a new group goes to the least
loaded replica. A group stays where it was placed, as its prompt is cached there, until its replica
goes or would exceed twice that bound.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
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


_SLACK = 1.1
_ALWAYS = 8  # items that a replica takes regardless of its load: a typical group
_STAYS = 2  # a group leaves its replica at this many times the bound
_REMEMBERED = 8192
_KEY_CHARS = 512

_known: dict[tuple[str, str], tuple[str, ...]] = {}


def note_replicas(app: str, deployment: str, replicas: Iterable[str]) -> None:
    """Set the ids of a deployment's replicas, as this process's routers report them."""
    _known[app, deployment] = tuple(replicas)


def known_replicas(app: str, deployment: str) -> tuple[str, ...]:
    """The replica ids of a deployment; empty if Serve places its calls."""
    return _known.get((app, deployment), ())


@dataclass(eq=False)
class Share:
    """The part of a batch that goes to one replica in one call.

    Attributes:
        replica: the replica's id; None if Serve chooses it.
        indices: indices of the items in the batch.
        size: bytes of the items, as ``size_of`` estimates them.
        batch: the batch's id, which tells the replica that other parts belong to it; None if this
            is the whole batch.
    """

    replica: str | None
    indices: Sequence[int]
    size: int = 0
    batch: str | None = None


class Placement:
    """Places this process's items for one deployment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loads: Counter[str] = Counter()
        self._in_flight: set[Share] = set()
        self._homes: dict[int, str] = {}  # the group used last at the end

    def shares(self, items: Sequence[object], replicas: Sequence[str]) -> list[Share]:
        """Split the batch into calls; call ``done`` with each share when it is answered."""
        if len(replicas) < 2 or not items:
            return _calls(items, None, range(len(items)))
        groups: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault(group_key(item), []).append(index)
        parts: dict[str, list[int]] = {}

        def place(indices: list[int], replica: str) -> None:
            self._loads[replica] += len(indices)
            parts.setdefault(replica, []).extend(indices)

        with self._lock:
            mean = (sum(self._loads[one] for one in replicas) + len(items)) / len(replicas)
            most = max(_ALWAYS, math.ceil(_SLACK * mean))
            for group, members in groups.items():
                if any(_waits_for_others(items[index]) for index in members):
                    place(members, first_choice(group, replicas))  # as every other process chooses
                elif len(members) <= most:
                    place(members, self._home(group, len(members), replicas, most))
                else:  # too many for one replica
                    for start in range(0, len(members), _ALWAYS):
                        place(members[start : start + _ALWAYS], self._least_loaded(replicas))
            shares = [one for part in parts.items() for one in _calls(items, *part)]
            self._in_flight.update(shares)
        return shares

    def done(self, share: Share) -> None:
        """Mark the share as answered."""
        with self._lock:
            if share.replica is not None and share in self._in_flight:
                self._in_flight.remove(share)
                self._loads[share.replica] -= len(share.indices)

    def _home(self, group: int, size: int, replicas: Sequence[str], most: int) -> str:
        home = self._homes.pop(group, "")
        if home in replicas:
            most = _STAYS * most
        else:
            home = first_choice(group, replicas)
        if self._loads[home] + size > most:
            home = self._least_loaded(replicas)
        self._homes[group] = home
        if len(self._homes) > _REMEMBERED:
            del self._homes[next(iter(self._homes))]
        return home

    def _least_loaded(self, replicas: Sequence[str]) -> str:
        return min(replicas, key=self._loads.__getitem__)


def first_choice(group: int, replicas: Sequence[str]) -> str:
    """The group's replica by rendezvous hashing, the same in every process."""
    return max(replicas, key=lambda one: blake2b(f"{one} {group}".encode()).digest())


def _waits_for_others(item: object) -> bool:
    """Whether a request is judged with the others of its group, which one replica must receive."""
    return isinstance(item, Mapping) and item.get("group_size") is not None


def group_key(item: object) -> int:
    """A hash of the item's group, the same in every process.

    A request without ``group`` is identified by its reference and question.
    """
    fields = item if isinstance(item, Mapping) else {}
    group = fields.get("group")
    key = group if isinstance(group, str) else (fields.get("reference"), fields.get("question"))
    return zlib.crc32(_text(key).encode("utf-8", "replace"))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value[:_KEY_CHARS]
    if isinstance(value, list | tuple):
        return "\x1f".join(_text(part) for part in value[:8])
    return type(value).__name__


def _calls(items: Sequence[object], replica: str | None, indices: Sequence[int]) -> list[Share]:
    parts = bounded(indices, lambda index: size_of(items[index]))
    return [Share(replica, part, size) for part, size in parts]
