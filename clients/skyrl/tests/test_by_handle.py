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

from clients.skyrl.tests import rollout_job
from tests.rule_cluster import rule_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A cluster that serves a rule, and a gateway to it; its address."""
    with rule_cluster() as address:
        yield address


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
    printed = json.loads(done.stdout.splitlines()[-1])

    assert printed["namespace"] == "trainer"
    assert printed["job"] != ray.get_runtime_context().get_job_id()
    assert printed["rewards"] == rollout_job.REWARDS
    assert printed["ok"] == 1.0
