"""What is told of a request's end, and to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


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

    def cancelled(self, request: object, times: Times) -> None:
        """A request's caller has left."""

    def flush(self) -> None:
        """A second has passed."""
