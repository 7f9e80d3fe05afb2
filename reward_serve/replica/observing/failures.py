"""Logs requests without a verdict, with a rate limit."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from reward_serve.replica.observing.base import Times
from reward_serve.reward_models.sampling import request_hash
from reward_serve.schema import Status

logger = logging.getLogger("ray.serve")

_LINES_A_SECOND = 20
_REASON_CHARACTERS = 200


class FailureLog:
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

    def cancelled(self, request: object, times: Times) -> None:
        """Cancelled requests are not logged."""

    def flush(self) -> None:
        """Log the counts of the last second."""
        if self._more:
            counts = {"model": self._model, **self._more}
            logger.warning("no verdict, not logged individually: %s", json.dumps(counts))
        self._lines = 0
        self._more.clear()
