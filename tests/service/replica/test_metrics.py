"""What is counted; tests/service/integration reads what Prometheus gets."""

from collections import defaultdict
from typing import Any
from unittest.mock import Mock

import pytest
from ray.serve import metrics as serve_metrics

from reward_serve.replica.observers import CANCELLED, Metrics, Times
from reward_serve.schema import ScoreResult, Status, failure


def test_requests_are_counted_beside_the_models_own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Mock] = defaultdict(Mock)
    for kind in ("Counter", "Histogram", "Gauge"):
        monkeypatch.setattr(serve_metrics, kind, lambda name, *_: made[name])
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

    def counted(name: str, tag: str) -> list[tuple[str, int]]:
        return [
            (call.args[1][tag], call.args[0])
            for call in made[f"reward_serve_{name}"].inc.call_args_list
        ]

    def observed(name: str) -> list[float]:
        return [call.args[0] for call in made[f"reward_serve_{name}"].observe.call_args_list]

    assert counted("requests_total", "status") == [("ok", 2), ("overloaded", 1), ("cancelled", 1)]
    assert counted("cache_total", "outcome") == [("hits", 3), ("hits", 2), ("misses", 2)]
    assert counted("audits_total", "outcome") == [("agreed", 1)]
    assert observed("latency_seconds") == [0.5, 0.5, 0.25]
    assert observed("queue_seconds") == [0.1, 0.1]
    made["reward_serve_items"].set.assert_called_with(7)
