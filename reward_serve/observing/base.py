"""What is told of a request's end, and to whom."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

_HASHED_CHARACTERS = 4096


@dataclass(slots=True)
class Times:
    """How long a request took, in seconds.

    Attributes:
        total: from its arrival to its result.
        queue: of that, before the reward model had it; None if it never had.
        model: of that, in the reward model; None if it never was.
    """

    total: float
    queue: float | None = None
    model: float | None = None


class Observer(Protocol):
    """Is told of every request's end."""

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """A request, as it came, has its result, whatever its status."""

    def cancelled(self) -> None:
        """A request's caller has left."""

    def flush(self) -> None:
        """A second has passed."""


class Observers:
    """Several as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.observe(request, result, times)

    def cancelled(self) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.cancelled()

    def flush(self) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.flush()


def request_hash(request: object) -> str:
    """16 hex digits that equal questions share: response, reference, question and template.

    Of a long text its end and its length.
    """
    fields = request if isinstance(request, Mapping) else None
    told = hashlib.sha256()
    for name in ("response", "reference", "question", "template"):
        value = getattr(request, name, None) if fields is None else fields.get(name)
        text = value if isinstance(value, str) else repr(value)
        told.update(f"{len(text)}:{text[-_HASHED_CHARACTERS:]}".encode("utf-8", "surrogatepass"))
    return told.hexdigest()[:16]


def chosen(request_hash: str, rate: float) -> bool:
    """Whether a request is of a sample; the same in every replica, and at every time."""
    return int(request_hash[:8], 16) < rate * 2**32
