"""A replica's Prometheus metrics, through Ray's own exporter.

Serve adds the application, the deployment and the replica to each as labels.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Mapping
from typing import Any

from reward_serve.replica.observing.base import Times

_SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0]
_SCORES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


class Metrics:
    """Counts and histograms of one replica.

    ``reward_serve_requests_total`` by template, status and source (status ``cancelled`` where the
    caller left); ``reward_serve_latency_seconds``, ``_queue_seconds`` and ``_model_seconds``;
    ``reward_serve_tokens_total`` by kind (prompt, cached, completion);
    ``reward_serve_cache_total`` by outcome (hits, misses); ``reward_serve_audits_total`` by outcome
    (agreed, disagreed, failed), of rules and model on the same request, and
    ``reward_serve_panels_total`` likewise of a panel's members; ``reward_serve_score``;
    ``reward_serve_items``, at work or waiting.

    Args:
        items: how many are at work or waiting.
        describe: the reward model's description, whose ``cache``, ``audit`` and ``panel`` are
            counts.
    """

    def __init__(self, items: Callable[[], int], describe: Callable[[], Mapping[str, Any]]) -> None:
        from ray.serve import metrics

        self._requests = metrics.Counter(
            "reward_serve_requests_total",
            description="Requests by how they ended.",
            tag_keys=("template", "status", "source"),
        )
        self._tokens = metrics.Counter(
            "reward_serve_tokens_total",
            description="Tokens of the engine: prompt, cached (of the prompt), completion.",
            tag_keys=("kind",),
        )
        self._of_model = {
            "cache": metrics.Counter(
                "reward_serve_cache_total",
                description="Questions for the model that the cache answered, or not.",
                tag_keys=("outcome",),
            ),
            "audit": metrics.Counter(
                "reward_serve_audits_total",
                description="Requests put to the rules and to the model: whether they agreed.",
                tag_keys=("outcome",),
            ),
            "panel": metrics.Counter(
                "reward_serve_panels_total",
                description="Requests put to a panel: whether its members agreed.",
                tag_keys=("outcome",),
            ),
        }
        histograms = {
            "latency_seconds": ("Arrival to result, queueing included.", _SECONDS),
            "queue_seconds": ("Arrival to the reward model.", _SECONDS),
            "model_seconds": ("In the reward model: rules, rendering, engine.", _SECONDS),
            "score": ("Scores that were earned.", _SCORES),
        }
        self._latency, self._queue, self._model, self._score = (
            metrics.Histogram(f"reward_serve_{name}", description=told, boundaries=bounds)
            for name, (told, bounds) in histograms.items()
        )
        self._items = metrics.Gauge("reward_serve_items", description="Items at work or waiting.")
        self._ended: Counts[tuple[str, str, str]] = Counts()
        self._used: Counts[str] = Counts()
        self._told: Counts[tuple[str, str]] = Counts()
        self._count_items = items
        self._describe = describe

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        """A request has its result."""
        self._latency.observe(times.total)
        if times.queue is not None:
            self._queue.observe(times.queue)
        if times.model is not None:
            self._model.observe(times.model)
        if result["score"] is not None:
            self._score.observe(result["score"])
        template, source = result["template"] or "", result["source"] or ""
        self._count(template, result["status"], source)
        usage = result["usage"]
        if usage["prompt_tokens"]:
            self._used.update({kind.removesuffix("_tokens"): usage[kind] for kind in usage})

    def cancelled(self, request: object, times: Times) -> None:
        """A request's caller has left."""
        self._count("", "cancelled", "")

    def flush(self) -> None:
        """Pass on what was counted; an increment costs more than a request of a rule."""
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
                if new := count - self._told[name, outcome]:
                    counter.inc(new, {"outcome": outcome})
                    self._told[name, outcome] = count

    def _count(self, template: str, status: str, source: str) -> None:
        self._ended[template, status, source] += 1
