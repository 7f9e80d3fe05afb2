"""Every request is counted in Prometheus, through Ray's own exporter."""

from __future__ import annotations

import re

import httpx
import ray

from reward_serve import HttpRewardClient
from tests.integration.conftest import Deploy, wait_for


def test_requests_are_counted_where_prometheus_scrapes(deploy_app: Deploy, url: str) -> None:
    client = deploy_app("counted", {"models": [{"name": "rule", "kind": "rule"}]})
    with HttpRewardClient(f"{url}/counted") as http:
        wait_for("the rule model", http.is_ready, 60)
    asked = [{"response": f"#### {n}", "reference": "3"} for n in range(20)]
    assert sum(result.score or 0 for result in client.score_batch([*asked, {"response": 3}])) == 1.0

    (node,) = ray.nodes()
    exporter = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"

    def counts() -> dict[str, float]:
        """Status to count, of the application's requests."""
        text = httpx.get(exporter, timeout=10).text
        lines = re.findall(r"^ray_reward_serve_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE)
        ours = [(dict(re.findall(r'(\w+)="([^"]*)"', tags)), float(n)) for tags, n in lines]
        return {t["status"]: n for t, n in ours if t["application"] == "counted"}

    wait_for("the exporter", lambda: counts() == {"ok": 20.0, "invalid": 1.0}, 40)
    text = httpx.get(exporter, timeout=10).text
    for name in ("latency_seconds_bucket", "queue_seconds_sum", "model_seconds_count", "items"):
        assert f"ray_reward_serve_{name}{{" in text
