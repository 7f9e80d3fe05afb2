"""Logs a sample of the requests as JSON lines, to see what a policy is rewarded for."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reward_serve.config.models import VerdictLogConfig
from reward_serve.lines import LineFile
from reward_serve.replica.observers import Observer, Times
from reward_serve.reward_models.sampling import chosen, request_hash
from reward_serve.schema import MAX_NAME_CHARACTERS, MAX_REFERENCES, echoes

logger = logging.getLogger("ray.serve")

_FILES = 2
_QUEUED_LINES = 10_000
_STEP_CHARACTERS = 64


class VerdictLog(Observer):
    """Appends sampled requests to ``verdicts-MODEL-PID.jsonl``, from a separate thread.

    Every line has the same keys. Requests without a verdict have their ``status`` and ``reason``,
    cancelled requests have the status ``cancelled``.

    Requests are sampled by their hash, so equal requests are either all sampled or not, in every
    replica. The two newest files are kept, with ``max_mib`` in total; only their owner can read
    them. While the disk is full or too slow, lines are lost and counted.

    Args:
        model: the reward model's name.
        config: the ``verdict_log`` section of the deployments file, with a folder.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, model: str, config: VerdictLogConfig) -> None:
        self._model = model
        self._config = config
        self._file = LineFile(
            Path(config.folder or ".").expanduser() / f"verdicts-{model}-{os.getpid()}.jsonl",
            logger,
            int(config.max_mib * 2**20 / _FILES),
        )
        self._file.create()
        self._lines: queue.Queue[str | None] = queue.Queue(_QUEUED_LINES)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Log the request if it is sampled."""
        number = request_hash(request)
        if not chosen(number, self._config.rate):
            return
        content = {"time": round(time.time(), 3), "request": number, "model": self._model}
        content |= {"step": _step(result.get("metadata")), **self._asked(request)}
        content |= {name: result.get(name) for name in _RESULT}
        content["latency_s"] = round(times.total, 4)
        if self._config.redact:
            content["reason"] = None  # it may quote the request
        try:
            self._lines.put_nowait(json.dumps(content))
        except queue.Full:
            self._dropped += 1

    def cancelled(self, request: object, times: Times) -> None:
        """Log the request if it is sampled."""
        self.observe(request, {**echoes(request), "status": "cancelled"}, times)

    def flush(self) -> None:
        """Log the number of lines that were dropped in the last second."""
        if self._dropped:
            logger.warning("verdict log: %d lines dropped, the disk is too slow", self._dropped)
            self._dropped = 0

    def close(self) -> None:
        """Write the remaining lines."""
        self._lines.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            self._file.append(line)

    def _asked(self, request: object) -> dict[str, Any]:
        """The line's fields about the request, which may be invalid in any way."""
        fields = request if isinstance(request, Mapping) else {}
        response = _as_text(fields.get("response")) or ""
        asked: dict[str, Any] = {
            "group": _as_text(fields.get("group"), MAX_NAME_CHARACTERS),
            "response_characters": len(response),
        }
        if not self._config.redact:
            asked["response_tail"] = response[-self._config.tail_characters :]
            asked["reference"] = _references(fields.get("reference"))
        return asked


def _step(metadata: Mapping[str, Any] | None) -> int | float | str | None:
    """The trainer's step, if ``metadata`` contains it."""
    step = (metadata or {}).get("step")
    if isinstance(step, str):
        return step[:_STEP_CHARACTERS]
    return step if isinstance(step, int | float) else None


def _as_text(value: object, most: int | None = None) -> str | None:
    return value[:most] if isinstance(value, str) else None


def _references(value: object) -> str | list[str] | None:
    """The reference as sent, or None if it is not valid."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value[:MAX_REFERENCES]
    return _as_text(value)


_RESULT = (
    "id",
    "score",
    "status",
    "reason",
    "source",
    "label",
    "probabilities",
    "details",
    "template",
    "fingerprint",
)
