"""The job group as SkyPilot's own parser reads it.

SkyPilot has an environment of its own: ``SKYPILOT_PYTHON``, which `make test-all` builds and sets.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from deployments.local import ROOT
from examples.grpo.placement import resources_of

FILE = ROOT / "examples" / "grpo" / "skypilot.yaml"
READ = """
import json, sys
from sky.utils import dag_utils
assert dag_utils.is_job_group_yaml(sys.argv[1])
dag = dag_utils.load_job_group_from_yaml(sys.argv[1])
tasks = {
    task.name: {
        "nodes": task.num_nodes,
        "accelerators": [each.accelerators for each in task.resources],
        "run": task.run,
        "envs": task.envs,
    }
    for task in dag.tasks
}
print(json.dumps({
    "name": dag.name, "is_group": dag.is_job_group(), "primary": dag.primary_tasks,
    "delay": dag.termination_delay, "tasks": tasks,
}))
"""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Any:
    python = os.environ.get("SKYPILOT_PYTHON")
    if not python:
        pytest.skip("SKYPILOT_PYTHON names no Python with requirements/sky.txt installed")
    read = subprocess.run(
        [python, "-c", READ, str(FILE)],
        env={**os.environ, "HOME": str(tmp_path_factory.mktemp("home"))},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    return json.loads(read.stdout.splitlines()[-1])


def test_the_trainer_is_primary_and_the_others_end_after_it(group: Any) -> None:
    assert group["is_group"]
    assert (group["primary"], group["delay"]) == (["trainer"], "30s")
    assert set(group["tasks"]) == {"trainer", "policy", "sampler", "rollout", "reward"}


def test_the_policy_and_its_samplers_have_gpus(group: Any) -> None:
    found = {name: task["accelerators"] for name, task in group["tasks"].items()}

    assert found.pop("policy") == found.pop("sampler") == [{"L4": 1}]
    assert list(found.values()) == [[None]] * 3


def test_the_jobs_find_each_other_by_the_groups_names(group: Any) -> None:
    runs = {name: task["run"] for name, task in group["tasks"].items()}

    assert "http://policy-0.${SKYPILOT_JOBGROUP_NAME}:8123" in runs["trainer"]
    assert "--port 8123" in runs["policy"]
    assert "http://policy-0.${SKYPILOT_JOBGROUP_NAME}:8123" in runs["sampler"]
    assert "http://sampler-%g.${SKYPILOT_JOBGROUP_NAME}:8200" in runs["trainer"]
    assert "--port 8200" in runs["sampler"]
    for name in ("rollout", "reward"):
        assert "trainer-0.${SKYPILOT_JOBGROUP_NAME}:6379" in runs[name]


def test_a_part_is_placed_by_a_resource_that_a_job_brings(group: Any) -> None:
    (placed,) = resources_of(["workers=rollout"]).values()

    assert "--place workers=rollout" in group["tasks"]["trainer"]["run"]
    assert f'"{placed}": 1' in group["tasks"]["rollout"]["run"]
    assert group["tasks"]["rollout"]["nodes"] == 2


def test_the_router_knows_as_many_samplers_as_there_are(group: Any) -> None:
    tasks = group["tasks"]

    assert int(tasks["trainer"]["envs"]["SAMPLERS"]) == tasks["sampler"]["nodes"] == 2
    models = {tasks[name]["envs"]["MODEL_NAME"] for name in ("trainer", "policy", "sampler")}
    assert len(models) == 1
