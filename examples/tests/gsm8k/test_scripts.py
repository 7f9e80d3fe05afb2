"""The launch scripts' own behaviour; SkyRL reads their settings in clients/skyrl/tests."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.gsm8k.gpus import shortage
from tests.fake_service import free_port

SCRIPTS = Path(__file__).parents[3] / "examples" / "gsm8k"
DEPLOYMENTS = SCRIPTS.parents[1] / "deployments"


def run(script: str, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    """A script, with this process's variables and some more."""
    unset = ("JUDGE", "KEEP_JUDGE", "REWARD_SERVE_URL", "PRINT_CONFIG", "RAY_ADDRESS", "LOGGER")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [SCRIPTS / script, *arguments],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def test_what_is_missing_or_unknown_is_named_with_the_remedy(tmp_path: Path) -> None:
    done = run("run_judge_sync.sh", DATA_DIR=str(tmp_path))
    assert done.returncode == 1
    assert f"prepare_dataset --variant judge --out {tmp_path}/judge" in done.stderr
    done = run("deploy_judge.sh", JUDGE="gpt", STATE_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "JUDGE=gpt: qwen, bundled, openai or graded\n")


class Machine:
    """A machine without a cluster, whose interpreter is a stand-in: its judge is a process."""

    def __init__(self, folder: Path, training_exits: int = 0, gpus_suffice: bool = True) -> None:
        self.folder = folder
        fake = folder / "python"
        fake.write_text(
            f"""#!/usr/bin/env bash
cd "{folder}"
echo "$*" >>calls
case $* in
  *wait*) test -f serving ;;
  *"scripts status"*) exit 1 ;;
  *gpus.py*) {"true" if gpus_suffice else 'echo "too few" >&2 && exit 1'} ;;
  *--dry-run*) echo "a file" ;;
  *"reward_serve serve"*)
    echo "REWARD_SERVE_APP=reward RAY_ADDRESS=192.0.2.1:6379"
    trap 'rm serving; exit' TERM
    touch serving
    while :; do sleep 0.05; done ;;
  *skyrl.main*)
    echo "$RAY_ADDRESS, $(ls serving), $WANDB_API_KEY" >trained
    exit {training_exits} ;;
esac
""",
            encoding="utf-8",
        )
        fake.chmod(0o755)
        (folder / "judge").mkdir()
        (folder / "judge" / "train.parquet").touch()

    def run(self, script: str, *arguments: str, **variables: Any) -> Any:
        paths: dict[str, Any] = {
            "DATA_DIR": str(self.folder),
            "STATE_DIR": str(self.folder / "state"),
            "TRAINER_PYTHON": str(self.folder / "python"),
        }
        return run(script, *arguments, **paths, **variables)

    def serves(self) -> bool:
        return (self.folder / "serving").exists()

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text(encoding="utf-8").splitlines()

    def trained(self) -> str:
        return (self.folder / "trained").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize(
    ("script", "overrides", "training"),
    [
        ("run_judge_sync.sh", [], 1),
        ("run_judge_async.sh", ["trainer.placement.policy_num_gpus_per_node=4"], 5),
        ("run_judge_sync.sh", ["generator.inference_engine.num_engines=2"], 2),
    ],
)
def test_with_too_few_gpus_a_run_stops_before_it_deploys(
    script: str, overrides: list[str], training: int, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, gpus_suffice=False)
    done = machine.run(script, *overrides, RAY_ADDRESS="192.0.2.1:6379")
    assert (done.returncode, done.stderr) == (1, "too few\n")
    expected = f"gpus.py {DEPLOYMENTS}/judge-gpu.yaml {training} 192.0.2.1:6379"
    assert machine.calls()[-1].endswith(expected)


@pytest.mark.parametrize("code", [0, 3])
def test_a_run_ends_the_judge_that_it_started_and_reads_keys_from_a_file(
    code: int, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, training_exits=code)
    (tmp_path / "keys.env").write_text("WANDB_API_KEY='k 1'\n", encoding="utf-8")
    done = machine.run("run_judge_sync.sh", ENV_FILE=str(tmp_path / "keys.env"))

    assert done.returncode == code, done.stderr
    assert machine.trained() == "192.0.2.1:6379, serving, k 1"
    assert "trainer.logger=wandb" in machine.calls()[-1]
    assert not machine.serves()


def test_a_judge_that_is_kept_serves_the_next_run_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    try:
        assert machine.run("run_judge_sync.sh", KEEP_JUDGE="1").returncode == 0
        assert machine.serves()
        done = machine.run("run_judge_async.sh")
        assert done.stdout.startswith("a judge is already running")
        assert machine.trained() == "192.0.2.1:6379, serving,"
        assert machine.serves()  # this run did not start it
    finally:
        assert machine.run("deploy_judge.sh", "stop").returncode == 0
    assert not machine.serves()


def test_variables_choose_the_judges_model_and_size(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run("run_judge_sync.sh", JUDGE_MODEL="org/large", JUDGE_REPLICAS="1:4", JUDGE_TP="2")

    (dry,) = [call for call in machine.calls() if "--dry-run" in call]
    assert dry.startswith("-m reward_serve serve org/large --device cuda ")
    for field in ("name=judge", "engine.tensor_parallel_size=2",
                  "autoscaling.min_replicas=1", "autoscaling.max_replicas=4"):  # fmt: skip
        assert f"--set {field}" in dry
    file = tmp_path / "state" / "judge.yaml"
    assert file.read_text(encoding="utf-8") == "a file\n"
    assert any(f"gpus.py {file} 1 local" in call for call in machine.calls())
    assert any(call == f"-m reward_serve serve {file}" for call in machine.calls())


def test_gpus_of_the_judge_and_of_training_are_counted_against_the_clusters() -> None:
    content = yaml.safe_load((DEPLOYMENTS / "judge-gpu.yaml").read_text(encoding="utf-8"))
    assert shortage(content, 2, 3) is None
    content["applications"][0]["args"]["models"][0]["autoscaling"]["min_replicas"] = 2
    needs = "the judge needs 2 GPU and training 0, but the cluster has 1;"
    assert str(shortage(content, 0, 1)).startswith(needs)


def test_a_fault_in_the_judges_file_is_reported(tmp_path: Path) -> None:
    shipped = (DEPLOYMENTS / "rule.yaml").read_text(encoding="utf-8")
    (tmp_path / "rule.yaml").write_text(shipped.replace("kind: rule", "kind: rul"))
    done = run(
        "deploy_judge.sh",
        JUDGE="bundled",
        DEPLOYMENT=str(tmp_path / "rule.yaml"),
        URL=f"http://127.0.0.1:{free_port()}",
        STATE_DIR=str(tmp_path / "state"),
    )
    assert done.returncode == 1
    assert "models.0.kind: must be one of 'judge'" in done.stderr
