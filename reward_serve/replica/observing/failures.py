"""A log line for each request without a verdict, and not more than a log can bear."""

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

    Beyond 20 a second they are counted, and told together.

    Args:
        model: the reward model's name.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._lines = 0
        self._more: Counter[str] = Counter()

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Log it, if it has no verdict."""
        status = result["status"]
        if status == Status.OK:
            return
        if self._lines >= _LINES_A_SECOND:
            self._more[status] += 1
            return
        self._lines += 1
        told = {
            "model": self._model,
            "id": result["id"],
            "request": request_hash(request),
            "status": status,
            "reason": (result["reason"] or "")[:_REASON_CHARACTERS],
            "template": result["template"],
            "latency_s": round(times.total, 4),
            "queue_s": None if times.queue is None else round(times.queue, 4),
        }
        logger.warning("no verdict: %s", json.dumps(told))  # which escapes what callers wrote

    def cancelled(self, request: object, times: Times) -> None:
        """The caller knows."""

    def flush(self) -> None:
        """A second has passed."""
        if self._more:
            told = {"model": self._model, **self._more}
            logger.warning("no verdict, and not logged each: %s", json.dumps(told))
        self._lines = 0
        self._more.clear()
