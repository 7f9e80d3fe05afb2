"""A GRPO run as a Ray job on a cluster of three nodes, one of which is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from deployments.local import ROOT, free_port
from reward_serve.embedded.bundled import prepare_bundled
from tests.examples.grpo.fake_endpoint import FakeEndpoint
from tests.integration.grpo_runs import HalfRight, Run, options

STEPS = 8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    head = {
        "num_cpus": 0,
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": free_port(),
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster
    cluster.shutdown()


@pytest.mark.timeout(900)
def test_a_job_goes_on_when_a_node_of_its_rollout_workers_is_lost(
    cluster: Cluster, tmp_path: Path
) -> None:
    nodes = [cluster.add_node(num_cpus=0, resources={"rollout": 1}) for _ in range(2)]
    cluster.wait_for_nodes()
    out, log = tmp_path / "out", tmp_path / "log"
    with HalfRight() as judge, FakeEndpoint(tmp_path / "states", delay_s=0.5) as policy:
        arguments = [
            *options(judge.url, out, STEPS),
            *("--cluster", "auto", "--workers", "2", "--place", "workers=rollout"),
            *("--endpoint", policy.url, "--model", str(prepare_bundled(adapter=None))),
            *("--home", str(tmp_path / "home")),
        ]
        submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit"]
        submit += ["--address", f"http://{cluster.head_node.webui_url}"]
        submit += ["--runtime-env", "examples/grpo/ray_job.yaml", "--working-dir", "."]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*submit, "--", sys.executable, *arguments],
                cwd=ROOT,
                env={**os.environ, "COLUMNS": "500"},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        run = Run(process, out / "judge-sync", log)
        run.await_steps(2)
        cluster.remove_node(nodes[0], allow_graceful=False)
        process.wait(timeout=600)

    assert process.returncode == 0, log.read_text()
    assert [line["step"] for line in run.steps()] == list(range(STEPS))
    assert any(line["trained_groups"] for line in run.steps())
