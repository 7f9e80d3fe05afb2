"""Observers of a replica, which are notified of the end of every request."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from reward_serve.config.models import VerdictLogConfig
from reward_serve.lines import LineFile
from reward_serve.logprobs import LogprobsRequest
from reward_serve.reward_models.base import chosen, request_hash
from reward_serve.schema import ScoreRequest, Status

logger = logging.getLogger("ray.serve")

Asked = ScoreRequest | LogprobsRequest | None  # as an observer sees it; None if it was not valid
CANCELLED = "cancelled"  # the status, for observers, of a request whose caller cancelled it

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


class Observer(Protocol):
    """Notified of the end of every request."""

    def observe(self, request: Asked, result: Mapping[str, Any], times: Times) -> None:
        """Record a request and its result of any status."""

    def flush(self) -> None:
        """Called once a second."""


class FailureLog(Observer):
    """Logs failures as JSON: the request's id and hash, the status and its reason, and times.

    Beyond 20 per second, failures are only counted, and the counts are logged.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._lines = 0
        self._more: Counter[str] = Counter()

    def observe(self, request: Asked, result: Mapping[str, Any], times: Times) -> None:
        """Log a request that ended without a verdict."""
        status = result["status"]
        if status in (Status.OK, CANCELLED):
            return
        if self._lines >= _LINES_A_SECOND:
            self._more[status] += 1
            return
        self._lines += 1
        fields = {
            "model": self._model,
            "id": result["id"],
            "request": request and request_hash(request),
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
_OF_MODEL = {
    "cache": ("cache", "Hits and misses of the verdict cache."),
    "audit": ("audits", "Requests scored by rules and model: whether they agreed."),
    "group": ("group_comparisons", "Pairs of a group's responses: whether both orders agreed."),
    "composite": ("composites", "Requests scored by a composite: whether members agreed."),
    "cascade": ("cascades", "Requests that a cascade asked each member (outcome)."),
}
"""Counts in a reward model's description, their metrics and what these count."""


class Metrics(Observer):
    """Counters and histograms of one replica; docs/reference/metrics.md lists them.

    ``items`` returns the number of items in progress or waiting; ``describe`` the reward model's
    description, which has some of ``_OF_MODEL``.
    """

    def __init__(self, items: Callable[[], int], describe: Callable[[], Mapping[str, Any]]) -> None:
        from ray.serve import metrics

        def counter(name: str, description: str, *tags: str) -> metrics.Counter:
            return metrics.Counter(f"reward_serve_{name}_total", description, tags)

        def histogram(name: str, description: str) -> metrics.Histogram:
            return metrics.Histogram(f"reward_serve_{name}", description, _SECONDS)

        self._requests = counter(
            "requests", "Requests by template, status and source.", "template", "status", "source"
        )
        self._of_model = {key: counter(*named, "outcome") for key, named in _OF_MODEL.items()}
        self._latency = histogram("latency_seconds", "From arrival to result, including queueing.")
        self._completion = histogram("completion_seconds", "As latency, of chat completions.")
        self._of_teacher = histogram("teacher_seconds", "As latency, of log-probabilities.")
        self._queue = histogram("queue_seconds", "From arrival to the reward model.")
        self._tokens = counter("teacher_tokens", "Tokens with a log-probability.")
        self._mean = metrics.Gauge(
            "reward_serve_teacher_mean_logprob", "Of a token, in the last second with any."
        )
        self._new_tokens, self._new_sum = 0, 0.0
        self._items = metrics.Gauge("reward_serve_items", "Items in progress or waiting.")
        self._down = metrics.Gauge("reward_serve_endpoint_down", "1 while its endpoint is down.")
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._reported: Counter[tuple[str, str]] = Counter()
        self._count_items = items
        self._describe = describe

    def observe(self, request: Asked, result: Mapping[str, Any], times: Times) -> None:
        """Count a request and its result."""
        status = result["status"]
        self._ended[result["template"] or "", status, result["source"] or ""] += 1
        if status != CANCELLED:
            kinds = {"chat": self._completion, "teacher": self._of_teacher}
            kinds.get(result["source"], self._latency).observe(times.total)
            if times.queue is not None:
                self._queue.observe(times.queue)
        if result["source"] == "teacher" and status == Status.OK:
            tokens = result["details"]["tokens"]
            self._new_tokens += tokens
            self._new_sum += tokens * result["details"]["mean_logprob"]

    def flush(self) -> None:
        """Export the counts; one increment costs more than a request of a rule."""
        for (template, status, source), count in self._ended.items():
            tags = {"template": template, "status": status, "source": source}
            self._requests.inc(count, tags)
        self._ended.clear()
        if self._new_tokens:
            self._tokens.inc(self._new_tokens)
            self._mean.set(self._new_sum / self._new_tokens)
            self._new_tokens, self._new_sum = 0, 0.0
        self._items.set(self._count_items())
        described = self._describe()
        self._down.set(bool(described.get("outage")))
        for name, counter in self._of_model.items():
            for outcome, count in (described.get(name) or {}).items():
                if new := count - self._reported[name, outcome]:
                    counter.inc(new, {"outcome": outcome})
                    self._reported[name, outcome] = count


_KEYS = ("run", "step", "sample")  # that trainers send as metadata: a log can be read by step
_FILES = 2
_QUEUED_LINES = 10_000
_RESULT = (
    *("id", "score", "status", "reason", "source", "label", "probabilities", "details"),
    *("template", "fingerprint"),
)


class VerdictLog(Observer):
    """Appends sampled requests to ``verdicts-MODEL-PID.jsonl``, from a separate thread.

    Every verdict's line has the same keys; ``run``, ``step`` and ``sample`` are of its metadata.
    An audit of a logged request is a line of its own (``audited``).

    Requests are sampled by their hash, so equal requests are either all sampled or not, in every
    replica. The two newest files are kept, with ``max_mib`` in total; only their owner can read
    them. While the disk is full or too slow, lines are lost and a warning is logged.

    Args:
        model: the reward model's name.
        config: the ``verdict_log`` section of the deployments file, with a folder.

    Raises:
        OSError: the folder cannot be written.
    """

    def __init__(self, model: str, config: VerdictLogConfig) -> None:
        self._model, self._config = model, config
        path = Path(config.folder or ".", f"verdicts-{model}-{os.getpid()}.jsonl").expanduser()
        self._file = LineFile(path, logger, int(config.max_mib * 2**20 / _FILES))
        self._file.create()
        self._lines: queue.Queue[str | None] = queue.Queue(_QUEUED_LINES)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def observe(self, request: Asked, result: Mapping[str, Any], times: Times) -> None:
        """Log the request if it is valid and sampled."""
        if request is None or not chosen(number := request_hash(request), self._config.rate):
            return
        if isinstance(request, LogprobsRequest):
            self._put(self._line_of_teacher(request, result, number, times))
            return
        line = {
            **self._about(request, number),
            "response_characters": len(request.judged),
            **{name: result[name] for name in _RESULT},
            "latency_s": round(times.total, 4),
        }
        if self._config.redact:  # the reason and the details may quote the request
            line |= {"reason": None, "details": {"rule": (result["details"] or {}).get("rule")}}
        else:
            most = self._config.tail_characters
            line["response_tail"] = request.judged[-most:]
            line["reference"] = request.reference
            question = request.question or ""
            line["question"] = question if 0 < len(question) <= most else None
            line |= {"text": result["text"], "critique": result.get("critique")}
        self._put(line)

    def audited(
        self, request: ScoreRequest, source: str | None, by_rules: float, by_model: float
    ) -> None:
        """Log both scores of an audited request, as a line with the status ``audit``."""
        if chosen(number := request_hash(request), self._config.rate):
            scores = {"source": source, "by_rules": by_rules, "by_model": by_model}
            self._put({**self._about(request, number), "status": "audit", **scores})

    def _line_of_teacher(
        self, request: LogprobsRequest, result: Mapping[str, Any], number: str, times: Times
    ) -> dict[str, Any]:
        details = result["details"] or {}
        return {
            **self._about(request, number),
            **{name: result[name] for name in ("id", "status", "source")},
            "reason": None if self._config.redact else result["reason"],
            "tokens": details.get("tokens"),
            "mean_logprob": details.get("mean_logprob"),
            "fingerprint": result.get("fingerprint"),
            "latency_s": round(times.total, 4),
        }

    def _about(self, request: ScoreRequest | LogprobsRequest, number: str) -> dict[str, Any]:
        fields = {"time": round(time.time(), 3), "request": number, "model": self._model}
        keys = {name: (request.metadata or {}).get(name) for name in _KEYS}
        known = {k: v if isinstance(v, int | float | str) else None for k, v in keys.items()}
        return {**fields, **known, "group": request.group}

    def _put(self, line: dict[str, Any]) -> None:
        try:
            self._lines.put_nowait(json.dumps(line))
        except queue.Full:
            self._dropped += 1

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
