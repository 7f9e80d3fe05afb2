"""Observers of a replica, which are notified of the end of every request."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections import Counter
from collections import Counter as Counts
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from reward_serve.config.models import VerdictLogConfig
from reward_serve.lines import LineFile
from reward_serve.reward_models.base import chosen, request_hash
from reward_serve.schema import MAX_NAME_CHARACTERS, MAX_REFERENCES, Status, echoes

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


_SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0]
_SCORES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


class Metrics(Observer):
    """Counters and histograms of one replica; docs/reference/metrics.md lists them.

    Args:
        items: returns the number of items in progress or waiting.
        describe: returns the reward model's description, whose ``cache``, ``audit``,
            ``composite``, ``cascade`` and ``group`` are counts.
    """

    def __init__(self, items: Callable[[], int], describe: Callable[[], Mapping[str, Any]]) -> None:
        from ray.serve import metrics

        def counter(name: str, description: str, *tags: str) -> metrics.Counter:
            return metrics.Counter(f"reward_serve_{name}_total", description, tags)

        def histogram(name: str, description: str, bounds: list[float]) -> metrics.Histogram:
            return metrics.Histogram(f"reward_serve_{name}", description, bounds)

        self._requests = counter(
            "requests", "Requests by template, status and source.", "template", "status", "source"
        )
        self._tokens = counter(
            "tokens", "Tokens of the engine: prompt, cached (part of prompt), completion.", "kind"
        )
        self._of_model = {
            "cache": counter("cache", "Hits and misses of the verdict cache.", "outcome"),
            "audit": counter(
                "audits", "Requests scored by rules and model: whether they agreed.", "outcome"
            ),
            "group": counter(
                "group_comparisons",
                "Pairs of a group's responses: whether both orders agreed.",
                "outcome",
            ),
            "composite": counter(
                "composites", "Requests scored by a composite: whether members agreed.", "outcome"
            ),
            "cascade": counter(
                "cascades", "Requests that a cascade asked each member (outcome).", "outcome"
            ),
        }
        self._latency = histogram(
            "latency_seconds", "From arrival to result, including queueing.", _SECONDS
        )
        self._queue = histogram("queue_seconds", "From arrival to the reward model.", _SECONDS)
        self._model = histogram(
            "model_seconds", "In the reward model: rules, rendering, engine.", _SECONDS
        )
        self._score = histogram("score", "Scores.", _SCORES)
        self._items = metrics.Gauge("reward_serve_items", "Items in progress or waiting.")
        self._ended: Counts[tuple[str, str, str]] = Counts()
        self._used: Counts[str] = Counts()
        self._reported: Counts[tuple[str, str]] = Counts()
        self._count_items = items
        self._describe = describe

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """Count a request and its result."""
        self._latency.observe(times.total)
        if times.queue is not None:
            self._queue.observe(times.queue)
        if times.model is not None:
            self._model.observe(times.model)
        if result["score"] is not None:
            self._score.observe(result["score"])
        template, source = result["template"] or "", result["source"] or ""
        self._ended[template, result["status"], source] += 1
        usage = result["usage"]
        if usage["prompt_tokens"]:
            self._used.update({kind.removesuffix("_tokens"): usage[kind] for kind in usage})

    def cancelled(self, request: object, times: Times) -> None:
        """Count a cancelled request."""
        self._ended["", "cancelled", ""] += 1

    def flush(self) -> None:
        """Export the counts; one increment costs more than a request of a rule."""
        for (template, status, source), count in self._ended.items():
            tags = {"template": template, "status": status, "source": source}
            self._requests.inc(count, tags)
        for kind, count in self._used.items():
            if count:
                self._tokens.inc(count, {"kind": kind})
        self._ended.clear()
        self._used.clear()
        self._items.set(self._count_items())
        described = self._describe()
        for name, counter in self._of_model.items():
            for outcome, count in (described.get(name) or {}).items():
                if new := count - self._reported[name, outcome]:
                    counter.inc(new, {"outcome": outcome})
                    self._reported[name, outcome] = count


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
