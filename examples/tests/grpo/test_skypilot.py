"""The job group as SkyPilot's own parser reads it.

SkyPilot has an environment of its own: ``SKYPILOT_PYTHON``, which `make test-all` builds and sets.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from deployments.local import ROOT

FILE = ROOT / "examples" / "grpo" / "skypilot.yaml"
READ = """
import json, sys
from sky.utils import dag_utils
dag = dag_utils.load_job_group_from_yaml(sys.argv[1])
tasks = {
    task.name: [str([each.accelerators for each in task.resources]), task.run, task.envs]
    for task in dag.tasks
}
print(json.dumps([dag.is_job_group(), dag.primary_tasks, dag.termination_delay, tasks]))
"""


def test_the_jobs_find_each_other_and_end_with_the_trainer(tmp_path: Path) -> None:
    python = os.environ.get("SKYPILOT_PYTHON")
    if not python:
        pytest.skip("SKYPILOT_PYTHON names no Python with requirements/sky.txt installed")
    read = subprocess.run(
        [python, "-c", READ, str(FILE)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    *group, tasks = json.loads(read.stdout.splitlines()[-1])
    assert group == [True, ["trainer"], "30s"]
    assert tasks.keys() == {"trainer", "policy", "rollout", "reward"}
    assert [name for name, (resources, *_) in tasks.items() if "L4" in resources] == ["policy"]
    runs = {name: run for name, (_, run, _) in tasks.items()}
    assert "http://policy-0.${SKYPILOT_JOBGROUP_NAME}:8123" in runs["trainer"]
    for name in ("rollout", "reward"):
        assert "trainer-0.${SKYPILOT_JOBGROUP_NAME}:6379" in runs[name]
    assert len({tasks[name][2]["MODEL_NAME"] for name in ("trainer", "policy")}) == 1
    assert "--place workers=rollout" in runs["trainer"]
    assert '"rollout": 1' in runs["rollout"]
