"""The job group as SkyPilot's own parser reads it.

SkyPilot has an environment of its own: ``SKYPILOT_PYTHON``, which `make test-all` builds and sets.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deployments.local import ROOT

FILE = ROOT / "examples" / "grpo" / "skypilot.yaml"
READ = """
import json, sys
from sky.utils import dag_utils
overrides = [tuple(pair.split("=")) for pair in sys.argv[2:]]
dag = dag_utils.load_job_group_from_yaml(sys.argv[1], overrides)
tasks = {
    task.name: [
        str([each.accelerators for each in task.resources]), task.run, task.envs, task.num_nodes
    ]
    for task in dag.tasks
}
print(json.dumps([dag.is_job_group(), dag.primary_tasks, dag.termination_delay, tasks]))
"""


def launched(tmp_path: Path, *variables: str) -> Any:
    """What `sky jobs launch --env ...` reads."""
    python = os.environ.get("SKYPILOT_PYTHON")
    if not python:
        pytest.skip("SKYPILOT_PYTHON names no Python with requirements/sky.txt installed")
    read = subprocess.run(
        [python, "-c", READ, str(FILE), *variables],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    return json.loads(read.stdout.splitlines()[-1])


def test_the_jobs_find_each_other_and_end_with_the_trainer(tmp_path: Path) -> None:
    *group, tasks = launched(tmp_path)
    assert group == [True, ["trainer"], "30s"]
    assert tasks.keys() == {"trainer", "policy", "sampler", "rollout", "reward"}
    gpus = [name for name, (resources, *_) in tasks.items() if "L4" in resources]
    assert gpus == ["policy", "sampler"]
    runs = {name: run for name, (_, run, *_) in tasks.items()}
    assert "http://policy-0.${SKYPILOT_JOBGROUP_NAME}:8123" in runs["trainer"]
    for name in ("sampler", "rollout", "reward"):
        assert "trainer-0.${SKYPILOT_JOBGROUP_NAME}:6379" in runs[name]
    for part, name in (("workers", "rollout"), ("servers", "sampler")):
        assert f"--place {part}={name}" in runs["trainer"]
        assert f'"{name}": 1' in runs[name]
    (count,) = [line for line in runs["trainer"].splitlines() if line.startswith("SERVERS=")]
    servers = subprocess.check_output(
        ["bash", "-c", f"{count}; echo $SERVERS"], cwd=ROOT, text=True
    )
    assert int(servers) == tasks["sampler"][3] == 2


@pytest.mark.parametrize(
    ("job", "variable", "default", "other"),
    [
        ("policy", "MODEL_NAME", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"),
        ("reward", "REWARD_MODEL", "bundled", "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"),
    ],
)
def test_a_variable_is_set_once_for_every_job(
    job: str, variable: str, default: str, other: str, tmp_path: Path
) -> None:
    for variables, expected in ((), default), ((f"{variable}={other}",), other):
        *_, tasks = launched(tmp_path, *variables)
        lines = tasks[job][1].splitlines()
        (last,) = [at for at, line in enumerate(lines) if line.startswith(f"{variable}=")]
        script = "\n".join([*lines[: last + 1], f'echo "${variable}"'])
        completed = subprocess.run(
            ["bash", "-c", script], cwd=ROOT, env={**os.environ, **tasks[job][2]},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert completed.stdout == f"{expected}\n"
        assert tasks["trainer"][2][variable] == expected
