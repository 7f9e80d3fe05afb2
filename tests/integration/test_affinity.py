"""Several replicas: groups stay together, batches are split, whoever calls."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from ray import serve

from reward_serve import HttpRewardClient
from reward_serve.routing.placement import replicas_of
from tests.integration.conftest import Deploy, wait_for

RULES = {
    "models": [
        {
            "name": "rule",
            "kind": "rule",
            "resources": {"num_cpus": 0.1},
            "autoscaling": {"min_replicas": 3, "max_replicas": 3},
        }
    ]
}
BURST = [
    {"response": f"#### {n}", "reference": "3", "group": f"g{n // 8}", "id": str(n)}
    for n in range(128)
]

# A trainer's process that has Serve and not this package.
STRANGER = """
import sys
sys.modules["reward_serve"] = None
import ray
from ray import serve
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
handle = serve.get_deployment_handle("rule", "several")
asked = [{"response": "#### 3", "reference": "3"}]
print([result["score"] for result in handle.score_batch.remote(asked).result(timeout_s=30)])
"""


@pytest.mark.timeout(120)
def test_a_group_has_one_replica_and_a_batch_all(
    deploy_app: Deploy, url: str, cluster: str
) -> None:
    client = deploy_app("several", RULES)
    handle = serve.get_deployment_handle("rule", "several")

    def told() -> bool:
        running = serve.status().applications["several"].deployments["rule"].replica_states
        return {str(state): count for state, count in running.items()} == {"RUNNING": 3}

    wait_for("three replicas", told, 60)
    by_handle = client.score_batch(BURST)
    wait_for("the router to know them", lambda: replicas_of("several", "rule") == 3, 10)
    by_handle = client.score_batch(BURST)
    with HttpRewardClient(f"{url}/several", timeout_s=60) as http:
        by_http = http.score_batch(BURST)
    right = [float(n == 3) for n in range(128)]
    assert [result.score for result in by_handle] == right
    assert [result.score for result in by_http] == right

    def pid(session: str) -> Any:
        return handle.options(session_id=session).describe.remote().result(timeout_s=30)["pid"]

    pids = [pid(str(number)) for number in range(3)]
    assert len(set(pids)) == 3
    assert [pid(str(number)) for number in range(3, 6)] == pids
    stranger = [sys.executable, "-c", STRANGER, cluster]
    done = subprocess.run(stranger, capture_output=True, text=True, check=False, timeout=90)
    assert done.stdout.strip() == "[1.0]", done.stderr
