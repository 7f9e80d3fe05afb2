"""A sample of the verdicts as JSON lines, to read what a policy is being rewarded for."""

from __future__ import annotations

import json
import logging
import os
import queue
import time
from collections.abc import Mapping
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Any

from reward_serve.config.replicas import VerdictLogConfig
from reward_serve.replica.observing.base import Times
from reward_serve.reward_models.sampling import chosen, request_hash

_FILES = 2
_QUEUED_LINES = 10_000


class VerdictLog:
    """Appends sampled verdicts to ``verdicts-MODEL-PID.jsonl``, from a thread of its own.

    Which requests are sampled is told by their hash: equal questions are in it or not, in every
    replica. The two newest files are kept, of ``max_mib`` together.

    Args:
        model: the reward model's name.
        config: ``verdict_log`` of the deployments file, with a folder.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, model: str, config: VerdictLogConfig) -> None:
        folder = Path(config.folder or ".").expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        self._config = config
        self._file = RotatingFileHandler(
            folder / f"verdicts-{model}-{os.getpid()}.jsonl",
            maxBytes=int(config.max_mib * 2**20 / _FILES),
            backupCount=_FILES - 1,
            encoding="utf-8",
        )
        lines: queue.Queue[Any] = queue.Queue(_QUEUED_LINES)
        self._lines = QueueHandler(lines)
        self._listener = QueueListener(lines, self._file)
        self._listener.start()

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Write it, if it is of the sample."""
        number = request_hash(request)
        if result["status"] == "invalid" or not chosen(number, self._config.rate):
            return
        line = json.dumps({"time": round(time.time(), 3), "request": number} | self._told(request)
            | {name: result[name] for name in _RESULT}
            | {"latency_s": round(times.total, 4)})  # fmt: skip
        self._lines.handle(logging.LogRecord("verdicts", logging.INFO, "", 0, "%s", (line,), None))

    def cancelled(self) -> None:
        """There is no verdict."""

    def flush(self) -> None:
        """The thread writes by itself."""

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._listener.stop()
        self._file.close()

    def _told(self, request: object) -> dict[str, Any]:
        fields = request if isinstance(request, Mapping) else {}
        response = str(fields.get("response", ""))
        told = {"group": fields.get("group"), "response_characters": len(response)}
        if not self._config.redact:
            tail = response[-self._config.tail_characters :]
            told |= {"response_tail": tail, "reference": fields.get("reference")}
        return told


_RESULT = (
    "id",
    "score",
    "status",
    "source",
    "label",
    "probabilities",
    "details",
    "template",
    "fingerprint",
)
