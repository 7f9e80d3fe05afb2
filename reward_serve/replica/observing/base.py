"""The interface of observers, which are notified of the end of every request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(slots=True)
class Times:
    """The duration of a request, in seconds.

    Attributes:
        total: from arrival to result.
        queue: from arrival to the reward model; None if it did not get there.
        model: in the reward model; None if it did not get there.
    """

    total: float
    queue: float | None = None
    model: float | None = None


class Observer(Protocol):
    """Notified of the end of every request."""

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Record a request, as received, and its result of any status."""

    def cancelled(self, request: object, times: Times) -> None:
        """Record a request whose caller cancelled it."""

    def flush(self) -> None:
        """Called once a second."""
