"""Observers of a replica, which are notified of the end of every request."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reward_serve.reward_models.sampling import request_hash
from reward_serve.schema import Status

logger = logging.getLogger("ray.serve")

_LINES_A_SECOND = 20
_REASON_CHARACTERS = 200


@dataclass(slots=True)
class Times:
    """When a request arrived, got a slot and ended, in seconds of a monotonic clock."""

    began: float
    placed: float | None = None
    ended: float = 0.0

    @property
    def total(self) -> float:
        """Seconds from arrival to result."""
        return self.ended - self.began

    @property
    def queue(self) -> float | None:
        """Seconds from arrival to the reward model; None if the request did not get there."""
        return None if self.placed is None else self.placed - self.began

    @property
    def model(self) -> float | None:
        """Seconds in the reward model; None if the request did not get there."""
        return None if self.placed is None else self.ended - self.placed


class Observer(Protocol):
    """Notified of the end of every request."""

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Record a request, as received, and its result of any status."""

    def cancelled(self, request: object, times: Times) -> None:
        """Record a request whose caller cancelled it."""
        return

    def flush(self) -> None:
        """Called once a second."""


class FailureLog(Observer):
    """Logs failures as JSON: the request's id and hash, the status and its reason, and times.

    Beyond 20 per second, failures are only counted, and the counts are logged.

    Args:
        model: the reward model's name.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._lines = 0
        self._more: Counter[str] = Counter()

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Log a request that ended without a verdict."""
        status = result["status"]
        if status == Status.OK:
            return
        if self._lines >= _LINES_A_SECOND:
            self._more[status] += 1
            return
        self._lines += 1
        fields = {
            "model": self._model,
            "id": result["id"],
            "request": request_hash(request),
            "status": status,
            "reason": (result["reason"] or "")[:_REASON_CHARACTERS],
            "template": result["template"],
            "latency_s": round(times.total, 4),
            "queue_s": None if times.queue is None else round(times.queue, 4),
        }
        logger.warning("no verdict: %s", json.dumps(fields))  # JSON escapes the callers' text

    def flush(self) -> None:
        """Log the counts of the last second."""
        if self._more:
            counts = {"model": self._model, **self._more}
            logger.warning("no verdict, not logged individually: %s", json.dumps(counts))
        self._lines = 0
        self._more.clear()
