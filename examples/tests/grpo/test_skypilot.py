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
from examples.grpo.parts import resources_of

FILE = ROOT / "examples" / "grpo" / "skypilot.yaml"
READ = """
import json, sys
from sky.utils import dag_utils
assert dag_utils.is_job_group_yaml(sys.argv[1])
dag = dag_utils.load_job_group_from_yaml(sys.argv[1])
tasks = {
    task.name: {
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


def test_the_jobs_find_each_other_and_end_with_the_trainer(group: Any) -> None:
    assert group["is_group"]
    assert (group["primary"], group["delay"]) == (["trainer"], "30s")
    tasks = group["tasks"]
    runs = {name: task["run"] for name, task in tasks.items()}

    assert runs.keys() == {"trainer", "policy", "rollout", "reward"}
    assert [n for n, task in tasks.items() if task["accelerators"] != [None]] == ["policy"]
    assert "http://policy-0.${SKYPILOT_JOBGROUP_NAME}:8123" in runs["trainer"]
    for name in ("rollout", "reward"):
        assert "trainer-0.${SKYPILOT_JOBGROUP_NAME}:6379" in runs[name]
    assert len({tasks[each]["envs"]["MODEL_NAME"] for each in ("trainer", "policy")}) == 1
    (placed,) = resources_of(["workers=rollout"]).values()
    assert "--place workers=rollout" in runs["trainer"]
    assert f'"{placed}": 1' in runs["rollout"]
