"""Every request is counted in Prometheus, through Ray's own exporter."""

from __future__ import annotations

import re

import httpx
import ray

from reward_serve import RewardClient
from tests.service.integration.applications import RULES
from tests.service.integration.conftest import wait_for


def test_requests_are_counted_where_prometheus_scrapes(rule_url: str) -> None:
    (node,) = ray.nodes()
    exporter = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"

    def counts() -> dict[str, float]:
        """Status to count, of the model's requests."""
        text = httpx.get(exporter, timeout=10).text
        lines = re.findall(r"^ray_reward_serve_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE)
        ours = [(dict(re.findall(r'(\w+)="([^"]*)"', tags)), float(n)) for tags, n in lines]
        return {
            t["status"]: n for t, n in ours if (t["application"], t["deployment"]) == (RULES, "own")
        }

    before = counts()
    asked = [{"response": "", "metadata": {"points": n}} for n in range(20)]
    results = RewardClient(RULES, model="own").score_batch([*asked, {"response": 3}])
    assert [result.score for result in results] == [*range(20), None]
    expected = {"ok": before.get("ok", 0) + 20, "invalid": before.get("invalid", 0) + 1}
    wait_for("the exporter", lambda: counts().items() >= expected.items(), 40)
    text = httpx.get(exporter, timeout=10).text
    for name in ("latency_seconds_bucket", "queue_seconds_sum", "items"):
        assert f"ray_reward_serve_{name}{{" in text
