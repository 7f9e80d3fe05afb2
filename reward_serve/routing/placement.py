"""Choose the replica of each item in a batch.

The samples of a group share work (the prompt up to the response, equal answers) if they go to the
same replica. Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018) puts
a group on the replica of its key, which is the same in every process, unless that replica exceeds
its share of this process's items. The group then moves to the least loaded replica and stays there.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reward_serve.routing.sizes import MESSAGE_BYTES, bounded, size_of

_SLACK = 1.1
_ALWAYS = 8  # items that a replica takes regardless of its load: a typical group
_REMEMBERED = 8192
_KEY_CHARS = 512


@dataclass(frozen=True, eq=False)
class Share:
    """The part of a batch that goes to one replica in one call.

    Attributes:
        replica: the replica's id; None if Serve chooses it.
        indices: indices of the items in the batch.
        size: bytes of the items, as ``size_of`` estimates them.
    """

    replica: str | None
    indices: Sequence[int]
    size: int = 0

    @property
    def large(self) -> bool:
        """Whether it is a single item that exceeds the message limit."""
        return self.size > MESSAGE_BYTES


class Placement:
    """Places this process's items for one deployment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replicas: tuple[str, ...] = ()
        self._loads: dict[str, int] = {}
        self._under_way: set[Share] = set()
        self._moved: OrderedDict[int, str] = OrderedDict()

    def shares(self, items: Sequence[object], replicas: tuple[str, ...]) -> list[Share]:
        """Split the batch into calls; call ``done`` with each share when it is answered."""
        if len(replicas) < 2 or not items:
            return _messages(items, None, range(len(items)))
        keys = [group_key(item) for item in items]
        parts: dict[str, list[int]] = {}
        with self._lock:
            if self._replicas != replicas:
                self._replicas = replicas
                self._loads = dict.fromkeys(replicas, 0)
                self._under_way.clear()
                self._moved.clear()
            for index, replica in enumerate(self._place(keys)):
                parts.setdefault(replica, []).append(index)
            shares = [one for part in parts.items() for one in _messages(items, *part)]
            self._under_way.update(shares)
        return shares

    def done(self, share: Share) -> None:
        """Mark the share as answered."""
        with self._lock:
            if share.replica is not None and share in self._under_way:
                self._under_way.remove(share)
                self._loads[share.replica] -= len(share.indices)

    def _place(self, keys: Sequence[int]) -> list[str]:
        mean = (sum(self._loads.values()) + len(keys)) / len(self._loads)
        most = max(_ALWAYS, math.ceil(_SLACK * mean))
        homes = {key: self._home(key, size, most) for key, size in Counter(keys).items()}
        placed = (homes[key] for key in keys)
        return [self._fewest(1) if home is None else home for home in placed]

    def _home(self, key: int, size: int, most: int) -> str | None:
        """Assign the group to a replica; None if the group is too large for one replica."""
        if size > most:
            return None
        home = self._moved.get(key) or self._replicas[key % len(self._replicas)]
        if self._loads[home] + size <= most:
            self._loads[home] += size
            return home
        home = self._moved[key] = self._fewest(size)
        if len(self._moved) > _REMEMBERED:
            self._moved.popitem(last=False)
        return home

    def _fewest(self, size: int) -> str:
        replica = min(self._loads, key=self._loads.__getitem__)
        self._loads[replica] += size
        return replica


def _messages(items: Sequence[object], replica: str | None, indices: Sequence[int]) -> list[Share]:
    parts = bounded(indices, lambda index: size_of(items[index]))
    return [Share(replica, part, size) for part, size in parts]


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
