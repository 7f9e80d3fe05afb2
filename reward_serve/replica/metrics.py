"""A replica's Prometheus metrics, exported by Ray.

Serve adds labels for the application, the deployment and the replica.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Mapping
from typing import Any

from reward_serve.replica.observers import Observer, Times

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
                "Pairs of a group's responses: whether both orders agreed; and cycles.",
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
