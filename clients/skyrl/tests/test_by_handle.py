"""SkyRL 0.4.0's generator asks by handle, from another Ray job and namespace than the service's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray import serve

from clients.skyrl.tests import rollout_job
from reward_serve.app import build_app, build_gateway

RULE = {"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A cluster that serves a rule, and a gateway to it; its address."""
    ray.init(
        address="local", num_cpus=4, namespace="service", include_dashboard=False,
        log_to_driver=False,
    )  # fmt: skip
    serve.start(proxy_location="Disabled")
    serve.run(build_app({"models": [RULE]}), name="reward", route_prefix="/reward")
    door = {"models": [{"name": "rule", "application": "reward"}]}
    serve.run(build_gateway(door), name="gateway", route_prefix="/")
    yield ray.get_runtime_context().gcs_address
    serve.shutdown()
    ray.shutdown()


@pytest.mark.parametrize("app", ["reward", "gateway"])
def test_the_generators_environments_find_the_service(cluster: str, app: str) -> None:
    job = Path(rollout_job.__file__)
    done = subprocess.run(
        [sys.executable, str(job), cluster, app],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])

    assert told["namespace"] == "trainer"
    assert told["job"] != ray.get_runtime_context().get_job_id()
    assert told["rewards"] == rollout_job.REWARDS
    assert told["ok"] == 1.0
