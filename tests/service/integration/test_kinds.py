"""Reward models of each kind, side by side in one application, by handle and over HTTP."""

import re
from typing import Any

import httpx
import pytest
import ray
from ray import serve

from reward_serve import HttpRewardClient, RewardClient, Status
from tests.service.integration.applications import MISSING, OWN, RULES
from tests.service.integration.conftest import status_of, wait_for


def test_verifiers_of_one_application_are_asked_by_name(rule_url: str) -> None:
    requests: list[dict[str, Any]] = [
        {"response": "18", "reference": "18", "model": "exact"},
        {"response": "The answer is 18.", "reference": "18", "model": "exact"},
        {"response": "A: 18.0", "reference": "18", "model": "pattern"},
        {"response": "x", "model": "own", "metadata": {"points": 0.25}},
        {"response": "x", "model": "own"},
        {"response": "18", "model": "exact"},
    ]
    verdicts = [
        (Status.OK, 1.0),
        (Status.OK, 0.0),
        (Status.OK, 1.0),
        (Status.OK, 0.25),
        (Status.INVALID, None),
        (Status.INVALID, None),
    ]
    # On a machine without a free core, a verifier's process may be late at first.
    with HttpRewardClient(rule_url, max_attempts=3) as http:
        for client in (http, RewardClient(RULES, max_attempts=3)):
            results = client.score_batch(requests)
            assert [(result.status, result.score) for result in results] == verdicts
            assert "TypeError" in (results[4].reason or "")


def test_a_replica_that_cannot_start_fails_the_deployment_with_the_reason(url: str) -> None:
    assert status_of(MISSING) == "DEPLOY_FAILED"
    message = serve.status().applications[MISSING].deployments["own"].message
    assert f"rule.function: '{OWN}:no_such' cannot be imported" in message


def test_a_graded_judge_scores_the_expected_value_of_its_grades(http: HttpRewardClient) -> None:
    request = {"response": "9 * 2 = 18\n#### 18", "reference": "#### 18", "template": "graded"}
    result = http.score({**request, "options": {"cache": False}})
    assert (result.status, result.source, result.template) == (Status.OK, "judge", "graded")
    probabilities = result.probabilities or {}
    assert set(probabilities) == {"0", "1", "2"}
    expected = 0.5 * probabilities["1"] + probabilities["2"]
    assert result.score == pytest.approx(expected)


def test_requests_are_counted_where_prometheus_scrapes(rule_url: str) -> None:
    (node,) = ray.nodes()
    exporter = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"

    def counts() -> dict[str, float]:
        """Status to count, of the model's requests."""
        text = httpx.get(exporter, timeout=10).text
        lines = re.findall(r"^ray_reward_serve_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE)
        ours = [(dict(re.findall(r'(\w+)="([^"]*)"', tags)), float(n)) for tags, n in lines]
        return {
            t["status"]: n
            for t, n in ours
            if (t["application"], t["deployment"]) == (RULES, "counted")
        }

    before = counts()
    asked = [{"response": "", "metadata": {"points": n}} for n in range(20)]
    results = RewardClient(RULES, model="counted").score_batch([*asked, {"response": 3}])
    assert [result.score for result in results] == [*range(20), None]
    expected = {"ok": before.get("ok", 0) + 20, "invalid": before.get("invalid", 0) + 1}
    wait_for("the exporter", lambda: counts().items() >= expected.items(), 40)
    text = httpx.get(exporter, timeout=10).text
    for name in ("latency_seconds_bucket", "queue_seconds_sum", "items"):
        assert f"ray_reward_serve_{name}{{" in text
