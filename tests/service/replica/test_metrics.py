"""What is counted; tests/service/integration reads what Prometheus gets."""

from __future__ import annotations

from typing import Any

import pytest
from ray.serve import metrics as serve_metrics

from reward_serve.replica.observers import CANCELLED, Metrics, Times
from reward_serve.schema import ScoreResult, Status, failure


class Recorded:
    """A metric of Ray's that keeps the values it is given."""

    def __init__(self, name: str, *_: object) -> None:
        self.name = name
        self.values: list[Any] = []

    def inc(self, count: int, tags: dict[str, str]) -> None:
        self.values.append((count, tags))

    def observe(self, value: float) -> None:
        self.values.append(value)

    set = observe


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Recorded]:
    made: dict[str, Recorded] = {}

    def make(name: str, *settings: object) -> Recorded:
        made[name.removeprefix("reward_serve_")] = Recorded(name, *settings)
        return made[name.removeprefix("reward_serve_")]

    for kind in ("Counter", "Histogram", "Gauge"):
        monkeypatch.setattr(serve_metrics, kind, make)
    return made


def test_requests_are_counted_and_the_models_own_counts_passed_on_as_they_grow(
    recorded: dict[str, Recorded],
) -> None:
    described: dict[str, Any] = {"cache": {"hits": 3, "misses": 0}, "audit": {"agreed": 1}}
    metrics = Metrics(lambda: 7, lambda: described)
    ok = ScoreResult(status=Status.OK, score=1.0, source="judge").model_dump(mode="json")
    full = failure(Status.OVERLOADED, "full").model_dump(mode="json")
    metrics.observe(None, ok, Times(0.0, 0.1, 0.5))
    metrics.observe(None, ok, Times(0.0, 0.1, 0.5))
    metrics.observe(None, full, Times(0.0, ended=0.25))
    metrics.observe(None, {**full, "status": CANCELLED}, Times(0.0, ended=9.0))
    metrics.flush()
    described["cache"] = {"hits": 5, "misses": 2}
    metrics.flush()
    described["cache"] = None  # turned off
    metrics.flush()

    counts = [(tags["status"], n) for n, tags in recorded["requests_total"].values]
    assert counts == [("ok", 2), ("overloaded", 1), ("cancelled", 1)]
    assert recorded["latency_seconds"].values == [0.5, 0.5, 0.25]
    assert recorded["queue_seconds"].values == [0.1, 0.1]
    assert recorded["items"].values == [7, 7, 7]
    cached = [(tags["outcome"], n) for n, tags in recorded["cache_total"].values]
    assert cached == [("hits", 3), ("hits", 2), ("misses", 2)]
    assert recorded["audits_total"].values == [(1, {"outcome": "agreed"})]
