"""The launch scripts' own behaviour; SkyRL reads their settings in clients/skyrl/tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from reward_serve import HttpRewardClient
from tests.fake_service import FakeService, free_port

SCRIPTS = Path(__file__).parents[3] / "examples" / "gsm8k"


def run(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script, with this process's variables and some more."""
    unset = ("JUDGE", "REWARD_SERVE_URL", "PRINT_CONFIG")
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
    assert done.stdout == f"a judge answers at {service.url} already\n"


@pytest.mark.integration
@pytest.mark.parametrize("kind", [pytest.param("rule", marks=pytest.mark.slow), "rul"])
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
