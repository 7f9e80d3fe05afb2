"""A GRPO run as a Ray job on a cluster of three nodes, one of which is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster
from ray.job_submission import JobStatus, JobSubmissionClient

from deployments.local import ROOT, free_port
from examples.tests.grpo.fake_endpoint import FakeEndpoint
from reward_serve_judge.weights import prepare_bundled
from tests.long.grpo_runs import HalfRight, options, until

STEPS = 8


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    head = {
        "num_cpus": 0,
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": free_port(),
        "dashboard_agent_listen_port": free_port(),  # which takes the job
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
    address, out = f"http://{cluster.head_node.webui_url}", tmp_path / "out"
    jobs, steps = JobSubmissionClient(address), out / "judge-sync" / "steps.jsonl"
    with HalfRight() as judge, FakeEndpoint(tmp_path / "states", delay_s=0.5) as policy:
        arguments = [
            *options(judge.url, out, STEPS),
            *("--cluster", "auto", "--workers", "2", "--place", "workers=rollout"),
            *("--endpoint", policy.url, "--model", str(prepare_bundled(adapter=None))),
            *("--home", str(tmp_path / "home")),
        ]
        job = submitted(address, arguments)
        assert until(lambda: taken(steps) >= 2 or jobs.get_job_status(job).is_terminal())
        assert 2 <= taken(steps) < STEPS, jobs.get_job_logs(job)
        cluster.remove_node(nodes[0], allow_graceful=False)
        assert until(lambda: jobs.get_job_status(job).is_terminal())

    assert jobs.get_job_status(job) == JobStatus.SUCCEEDED, jobs.get_job_logs(job)
    lines = [json.loads(line) for line in steps.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(STEPS))
    assert any(line["trained_groups"] for line in lines)


def submitted(address: str, arguments: list[str]) -> str:
    """The job's id; the head takes jobs a little after it has started."""
    submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--no-wait"]
    submit += ["--address", address, "--working-dir", "."]
    submit += ["--runtime-env", "examples/grpo/ray_job.yaml"]
    for attempt in range(20):
        name = f"grpo-{attempt}"
        command = [*submit, "--submission-id", name, "--", sys.executable, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return name
        assert "No available agent" in done.stderr, done.stderr
    raise AssertionError(done.stderr)


def taken(steps: Path) -> int:
    return steps.read_text().count("\n") if steps.exists() else 0
