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
        self.recorded_values: list[Any] = []

    def inc(self, count: int, tags: dict[str, str]) -> None:
        self.recorded_values.append((count, tags))

    def observe(self, value: float) -> None:
        self.recorded_values.append(value)

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


def test_requests_are_counted_together_and_timed_where_they_have_a_time(
    recorded: dict[str, Recorded],
) -> None:
    items = iter([7, 0])
    metrics = Metrics(lambda: next(items), dict)
    ok = ScoreResult(status=Status.OK, score=1.0, source="judge", template="final_answer")
    ended = [
        *[(ok, Times(0.0, 0.1, 0.5))] * 3,
        (failure(Status.OVERLOADED, "full"), Times(0.0, ended=0.25)),
    ]
    for result, times in ended:
        metrics.observe(None, result.model_dump(mode="json"), times)
    left = failure(Status.ERROR, "").model_dump(mode="json") | {"status": CANCELLED}
    metrics.observe(None, left, Times(0.0, ended=9.0))
    assert recorded["requests_total"].recorded_values == []
    metrics.flush()
    metrics.flush()

    counts = {tuple(tags.values()): n for n, tags in recorded["requests_total"].recorded_values}
    assert counts == {
        ("final_answer", "ok", "judge"): 3,
        ("", "overloaded", ""): 1,
        ("", "cancelled", ""): 1,
    }
    assert recorded["latency_seconds"].recorded_values == [0.5, 0.5, 0.5, 0.25]
    assert recorded["queue_seconds"].recorded_values == [0.1] * 3
    assert recorded["items"].recorded_values == [7, 0]


def test_the_models_own_counts_are_passed_on_as_they_grow(recorded: dict[str, Recorded]) -> None:
    described: dict[str, Any] = {"cache": {"hits": 3, "misses": 0}, "audit": {"agreed": 1}}
    metrics = Metrics(lambda: 0, lambda: described)
    metrics.flush()
    described["cache"] = {"hits": 5, "misses": 2}
    metrics.flush()
    described["cache"] = None  # turned off
    metrics.flush()

    assert recorded["cache_total"].recorded_values == [
        (3, {"outcome": "hits"}),
        (2, {"outcome": "hits"}),
        (2, {"outcome": "misses"}),
    ]
    assert recorded["audits_total"].recorded_values == [(1, {"outcome": "agreed"})]
