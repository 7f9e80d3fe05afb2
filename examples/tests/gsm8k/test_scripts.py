"""The launch scripts' own behaviour; SkyRL reads their settings in clients/skyrl/tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from examples.gsm8k.gpus import shortage
from reward_serve import HttpRewardClient
from tests.fake_service import FakeService, free_port

SCRIPTS = Path(__file__).parents[3] / "examples" / "gsm8k"
DEPLOYMENTS = SCRIPTS.parents[1] / "deployments"


def run(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script, with this process's variables and some more."""
    unset = ("JUDGE", "REWARD_SERVE_URL", "PRINT_CONFIG", "RAY_ADDRESS")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [SCRIPTS / script, *arguments],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


@pytest.mark.parametrize("reward", ["rule", "judge"])
def test_without_data_a_run_says_how_to_prepare_them(reward: str, tmp_path: Path) -> None:
    done = run(f"run_{reward}_sync.sh", DATA_DIR=str(tmp_path))

    assert done.returncode == 1
    assert f"prepare_dataset --variant {reward} --out {tmp_path}/{reward}" in done.stderr


def test_overrides_come_last(tmp_path: Path) -> None:
    done = run("run_rule_async.sh", "trainer.epochs=1", PRINT_CONFIG="1")

    assert done.stdout.splitlines()[-1] == "trainer.epochs=1"


def test_an_unknown_judge_is_refused(tmp_path: Path) -> None:
    done = run("deploy_judge.sh", JUDGE="gpt", STATE_DIR=str(tmp_path))

    assert (done.returncode, done.stderr) == (2, "JUDGE=gpt: qwen, bundled, openai or graded\n")


@pytest.mark.parametrize("judge", ["bundled", "openai", "graded"])
def test_a_judge_that_answers_already_is_left_alone(
    judge: str, service: FakeService, tmp_path: Path
) -> None:
    done = run("deploy_judge.sh", JUDGE=judge, URL=service.url, STATE_DIR=str(tmp_path))

    assert done.returncode == 0
    assert done.stdout == f"a judge is already running at {service.url}\n"


def a_python_without_a_judge(folder: Path, gpus_check: int) -> str:
    """An interpreter that stands in for the trainer's: records its calls; a cluster runs."""
    fake = folder / "python"
    fake.write_text(
        f"""#!/usr/bin/env bash
echo "$*" >>"{folder}/calls"
case $* in
  *wait*) exit 1 ;;
  *gpus.py*) echo "too few" >&2 && exit {gpus_check} ;;
esac
""",
        encoding="utf-8",
    )
    fake.chmod(0o755)
    return str(fake)


@pytest.mark.parametrize(
    ("script", "overrides", "training"),
    [
        ("run_judge_sync.sh", [], 1),
        ("run_judge_async.sh", [], 2),
        ("run_judge_one_gpu.sh", [], 1),
        ("run_judge_async.sh", ["trainer.placement.policy_num_gpus_per_node=4"], 5),
        ("run_judge_sync.sh", ["generator.inference_engine.num_engines=2"], 2),
    ],
)
def test_with_too_few_gpus_a_run_stops_before_it_deploys(
    script: str, overrides: list[str], training: int, tmp_path: Path
) -> None:
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "train.parquet").touch()
    done = run(
        script,
        *overrides,
        JUDGE="qwen",
        DATA_DIR=str(tmp_path),
        STATE_DIR=str(tmp_path / "state"),
        RAY_ADDRESS="192.0.2.1:6379",
        TRAINER_PYTHON=a_python_without_a_judge(tmp_path, gpus_check=1),
    )
    assert (done.returncode, done.stderr) == (1, "too few\n")
    last = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()[-1]
    assert last.endswith(f"gpus.py {DEPLOYMENTS}/judge-gpu.yaml {training} 192.0.2.1:6379")


@pytest.mark.parametrize(
    ("replicas", "training", "there", "needs"),
    [
        (1, 2, 3, None),
        (1, 2, 2, "the judge needs 1 GPU and training 2, but the cluster has 2;"),
        (2, 0, 1, "the judge needs 2 GPU and training 0, but the cluster has 1;"),
    ],
)
def test_gpus_of_the_judge_and_of_training_are_counted_against_the_clusters(
    replicas: int, training: int, there: int, needs: str | None
) -> None:
    content = yaml.safe_load((DEPLOYMENTS / "judge-gpu.yaml").read_text(encoding="utf-8"))
    content["applications"][0]["args"]["models"][0]["autoscaling"]["min_replicas"] = replicas
    reason = shortage(content, training, there)
    assert reason is None if needs is None else str(reason).startswith(needs)


def test_a_machine_without_gpus_is_refused_and_no_cluster_is_left(tmp_path: Path) -> None:
    done = run(
        "deploy_judge.sh",
        JUDGE="qwen",
        TRAINER_GPUS="1",
        URL=f"http://127.0.0.1:{free_port()}",
        STATE_DIR=str(tmp_path),
        TRAINER_PYTHON=sys.executable,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("the judge needs 1 GPU and training 1, but the cluster has 0;")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["rule", "rul"])
def test_a_judge_is_deployed_and_ended_and_a_fault_is_reported(kind: str, tmp_path: Path) -> None:
    port = free_port()
    model = {"name": "rule", "kind": kind, "resources": {"num_cpus": 0.1}}
    application = {"name": "reward", "route_prefix": "/", "args": {"models": [model]}}
    config = {
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [application | {"import_path": "reward_serve.app:build_app"}],
    }
    (tmp_path / "rule.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    variables = {
        "JUDGE": "bundled",
        "DEPLOYMENT": str(tmp_path / "rule.yaml"),
        "URL": f"http://127.0.0.1:{port}",
        "STATE_DIR": str(tmp_path / "state"),
        "RAY_ADDRESS": "auto",  # of a trainer's cluster, which the bundled judge has no part in
    }
    done = run("deploy_judge.sh", **variables)
    with HttpRewardClient(variables["URL"]) as client:
        if kind == "rule":
            assert done.returncode == 0, done.stderr
            assert client.score({"response": "#### 18", "reference": "18"}).score == 1.0
            assert run("deploy_judge.sh", "stop", **variables).returncode == 0
        else:
            assert done.returncode == 1
            assert "models.0.kind: must be one of 'judge'" in done.stderr
        assert not client.is_ready()
