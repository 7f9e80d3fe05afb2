"""What people type who come from SkyRL's judge examples: each setting works or is refused.

Issue "Every row of the systems we replace works to the letter". Arguments of the trainer itself are
in clients/skyrl/tests/test_launch.py, the job group's variables in
examples/tests/grpo/test_skypilot.py.
"""

import asyncio
import json
import os
import shlex
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pandas as pd
import pytest
import typer
from openai import AsyncOpenAI
from typer.testing import CliRunner

from examples.gsm8k import prepare_dataset, tables
from examples.tests.gsm8k.test_scripts import DEPLOYMENTS, Machine, run
from reward_serve.config.models import JudgeModel
from reward_serve.engines.openai import OpenAIEngine
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from tests.openai_api import OpenAIStandIn
from tests.rows import rows
from tests.service.cli.test_serve import application, dry_run
from tests.virtual_time import in_virtual_time

ORIGINAL = "llm_as_a_judge_local"


def served_by(call: str) -> list[str]:
    """The arguments of `reward-serve serve` in a call of the stand-in."""
    return call.partition(" serve ")[2].removesuffix(" --dry-run").split()


def variables(typed: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(typed))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        *rows(__file__, "trainer"),
        (f"NUMBERS={ORIGINAL}", "trainer.policy_mini_batch_size=8"),
        (f"NUMBERS={ORIGINAL}", "trainer.algorithm.use_kl_loss=false"),
    ],
)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_variable_reaches_the_trainer(typed: str, expected: str, mode: str) -> None:
    done = run(f"run_judge_{mode}.sh", PRINT_CONFIG="1", **variables(typed))
    assert done.returncode == 0, done.stderr
    name = expected.partition("=")[0]
    assert [line for line in done.stdout.split("\n") if line.startswith(f"{name}=")][-1] == expected


def test_a_folder_that_skyrls_preparation_wrote_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").touch()
    done = run("run_judge_sync.sh", PRINT_CONFIG="1", DATA_DIR=str(tmp_path))
    assert f"data.train_data=['{tmp_path}/train.parquet']" in done.stdout


@pytest.mark.parametrize(("typed", "expected"), rows(__file__, "judge"))
def test_variables_reach_the_judge(typed: str, expected: dict[str, Any], tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.run("run_judge_sync.sh", **variables(typed)).returncode == 0
    (dry,) = [call for call in machine.calls() if "--dry-run" in call]
    (judge,) = application(dry_run(*served_by(dry))).models
    assert isinstance(judge, JudgeModel)
    for path, value in expected.items():
        section, _, name = path.partition(".")
        assert getattr(getattr(judge, section), name) == value


def hosted(typed: str, folder: Path) -> JudgeModel:
    """The judge that the script serves, in a checkout whose interpreter is a stand-in."""
    machine, root = Machine(folder), folder / "root"
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").symlink_to(folder / "python")
    (root / "Makefile").write_text("setup:\n")
    for name in ("examples", "deployments"):
        (root / name).symlink_to(DEPLOYMENTS.parent / name)
    script = str(root / "examples" / "gsm8k" / "deploy_judge.sh")
    done = machine.run(script, "run", "true", **variables(typed))
    assert done.returncode == 0, done.stderr
    first, *_ = [call for call in machine.calls() if "reward_serve serve" in call]
    (judge,) = application(dry_run(*served_by(first))).models
    assert isinstance(judge, JudgeModel)
    return judge


async def minute(judge: JudgeModel, api: OpenAIStandIn, callers: int, **asked: Any) -> list[Any]:
    """The results of a minute of these callers, after the first verdict and a minute more."""
    http: Any = httpx.AsyncClient(transport=httpx.MockTransport(api))
    client = AsyncOpenAI(api_key="sk-0123456789", http_client=http)
    client._platform = "Linux"  # else it asks a thread, for whom time does not wait
    engine = OpenAIEngine(judge, client)
    http.event_hooks = {"request": [engine.window.asked], "response": [engine.window.replied]}
    judge.judge.rules_first = False
    scorer = Scorer("judge", Judge(judge, engine), Admission(256, 4096, engine.window))
    results = [await scorer.score({"response": "18", "reference": "18"})]
    api.refused.clear()
    began = time.monotonic()

    async def caller(number: int) -> None:
        while (now := time.monotonic() - began) < 120:
            body = {"response": f"It is {number} at {now}.", "reference": "18", "timeout_s": 300}
            result = await scorer.score({**body, **asked})
            results.extend([result] * (60 <= time.monotonic() - began < 120))

    await asyncio.gather(*map(caller, range(callers)))
    return results


@pytest.mark.parametrize(("typed", "template"), rows(__file__, "hosted"))
@in_virtual_time
async def test_a_hosted_judge_gets_what_it_takes(typed: str, template: str, tmp_path: Path) -> None:
    api = OpenAIStandIn()
    judge = hosted(typed, tmp_path)
    results = await minute(judge, api, 2, template=template)
    assert judge.name == "judge"
    assert {result["status"] for result in results} == {"ok"}
    assert not api.refused and len(api.asked) == len(api.answered_at)


@in_virtual_time
async def test_a_parameter_once_refused_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    (copied,) = application(dry_run("openai.yaml", "--set", "remote.model=my-deployment")).models
    assert isinstance(copied, JudgeModel)

    class Renamed(OpenAIStandIn):
        """A reasoning model by a name of its own, whose refusals name no ``param``."""

        def refusal(self, body: dict[str, Any]) -> Any:
            refused = super().refusal({**body, "model": "gpt-5-mini"})
            return refused and (*refused[:2], None)

    api = Renamed()
    results = await minute(copied, api, 4)
    assert {result["status"] for result in results} == {"ok"}
    assert api.refused == []  # after the first verdict
    assert len(api.asked) - len(api.answered_at) == 3
    assert "temperature, which is sent no more" in caplog.text


@pytest.mark.parametrize(
    ("typed", "limits", "template", "least"),
    [
        ("JUDGE=openai JUDGE_MODEL=gpt-4o-mini", (500, 200_000), "solution", 490),
        ("JUDGE=graded", (500, 500_000), "graded", 200),
    ],
)
@in_virtual_time
async def test_a_hosted_judge_uses_the_minutes_limits_and_is_not_refused(
    typed: str, limits: tuple[int, int], template: str, least: int, tmp_path: Path
) -> None:
    api = OpenAIStandIn(limits, reply_tokens=250)
    _, *results = await minute(hosted(typed, tmp_path), api, 64, template=template)
    assert {result["status"] for result in results} == {"ok"}
    assert not api.refused
    assert len(results) >= least


@pytest.mark.parametrize(("typed", "why"), rows(__file__, "without_effect"))
def test_a_variable_without_effect_is_refused(typed: str, why: str, tmp_path: Path) -> None:
    done = Machine(tmp_path).run("run_judge_sync.sh", **variables(typed))
    assert done.returncode == 2
    assert why in done.stderr


def test_a_running_judge_is_not_taken_for_the_one_that_was_asked_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    asked = {"REWARD_MODEL": "org/large", "KEEP_JUDGE": "1"}
    try:
        for _ in range(2):
            assert machine.run("run_judge_sync.sh", **asked).returncode == 0
        done = machine.run("run_judge_sync.sh", REWARD_MODEL="org/larger")
        assert done.returncode == 1
        assert "not org/larger --device cuda --set name=judge; stop it" in done.stderr
    finally:
        machine.run("deploy_judge.sh", "stop")


def test_a_judge_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    fake = tmp_path / "python"
    fake.write_text(fake.read_text().replace("trap 'rm serving; exit' TERM", "trap '' TERM"))
    assert machine.run("run_judge_sync.sh", KEEP_JUDGE="1").returncode == 0
    began = time.monotonic()
    done = machine.run("deploy_judge.sh", "stop", STOP_TIMEOUT_S="1")
    assert (done.returncode, time.monotonic() - began < 10) == (0, True)
    assert "did not stop in 1 s and is killed" in done.stderr
    assert not (tmp_path / "state" / "pid").exists()


def test_wandbs_login_is_seen(tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine example.org password no\nmachine api.wandb.ai\n  password k1\n")
    machine = Machine(tmp_path)
    assert machine.run("run_judge_sync.sh", NETRC=str(netrc), WANDB_API_KEY="").returncode == 0
    assert machine.trained().endswith(", k1")
    assert "trainer.logger=wandb" in machine.calls()[-1]


@pytest.mark.parametrize(
    ("typed", "arguments", "image", "served"),
    [
        ("", [], "cpu", "bundled --host 0.0.0.0"),
        ("PORT=9000", ["Qwen/Qwen3-32B", "--tp", "2"], "cuda", "Qwen/Qwen3-32B --tp 2 --host 0.0"),
        ("API_KEYS_FILE=/keys.txt HOST=0.0.0.0", ["openai.yaml"], "cpu", "--api-keys-file /keys"),
    ],
)
def test_a_script_builds_and_runs_the_container(
    typed: str, arguments: list[str], image: str, served: str, tmp_path: Path
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\ntest "$1" != image\n')
    docker.chmod(0o755)
    given = variables(typed)
    script = DEPLOYMENTS.parent / "deploy" / "containers" / "run.sh"
    done = run(str(script), *arguments, PATH=f"{tmp_path}:{os.environ['PATH']}", **given)
    assert done.returncode == 0, done.stderr
    _, build, started = (tmp_path / "calls").read_text().splitlines()
    assert build.startswith("build -f") and f"{image}.Dockerfile -t reward-serve:{image}" in build
    published = f"-p {given.get('HOST', '127.0.0.1')}:{given.get('PORT', 8000)}:8000"
    assert published in started and ("--gpus all" in started) is (image == "cuda")
    assert served in started.partition(f"reward-serve:{image} ")[2]
    refused = run(str(script), PATH=f"{tmp_path}:{os.environ['PATH']}", HOST="0.0.0.0")
    assert (refused.returncode, "set API_KEYS_FILE" in refused.stderr) == (2, True)


def prepare(folder: Path, *arguments: str) -> Any:
    rows = [{"problem": f"{n} + 1?", "solution": f"It is {n + 1}.", "answer": n} for n in range(20)]
    (folder / "math.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    app = typer.Typer()
    app.command()(prepare_dataset.main)
    arguments = ("--set", str(folder / "math.jsonl"), "--output_dir", str(folder), *arguments)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})


@pytest.mark.parametrize("size", ["--members", "--subset_size"])
def test_math500s_members_are_paired_and_rows_name_their_scorer(size: str, tmp_path: Path) -> None:
    source = "llm_judge_remote_math500"
    assert prepare(tmp_path, "--mia", size, "8", "--data-source", source).exit_code == 0
    rows = pd.read_parquet(tmp_path / "train.parquet").to_dict("records")
    assert {row["data_source"] for row in rows} == {source}
    infos = [row["extra_info"] for row in rows]
    members = {info["original_idx"] for info in infos if info["is_member"]}
    others = {info["original_idx"] for info in infos if not info["is_member"]}
    # As the original draws them, so that a model that was trained with it can be tested.
    assert members == set(Random(42).sample(range(20), 8))
    unused = [at for at in range(20) if at not in members]
    assert others == set(Random(43).sample(unused, 8))
    assert rows[0]["reward_model"]["ground_truth"] == infos[0]["target_gt"]


@pytest.mark.parametrize(("arguments", "why"), rows(__file__, "not_prepared"))
def test_what_is_not_prepared_is_refused(arguments: list[str], why: str, tmp_path: Path) -> None:
    refused = prepare(tmp_path, *arguments)
    assert refused.exit_code == 2
    assert why in " ".join(refused.output.replace("│", " ").split())


LOG = """
(pid=1) 2026-08-01 | INFO | Finished: 'sync_weights', time cost: 9.00s
(pid=1) reward/avg_pass_at_4: 0.5, reward/avg_raw_reward: 0.25, reward/mean_positive_reward: 0.2
(pid=1) 2026-08-01 | INFO | Finished: 'generate', time cost: 4.00s
(pid=1) 2026-08-01 | INFO | Finished: 'train_critic_and_policy', time cost: 2.00s
(pid=1) 2026-08-01 | INFO | Finished: 'sync_weights', time cost: 1.00s
(pid=1) 2026-08-01 | INFO | Finished: 'step', time cost: 8.00s
"""


def test_a_runs_two_tables_stand_beside_skyrls_and_its_curve_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "skyrl.log").write_text(LOG, encoding="utf-8")
    lap = {"sample_s": 1.0, "judge_s": 0.5, "train_s": 3.0, "weights_s": 0.25}
    steps = [lap | {"reward": n / 10} for n in range(5)]
    (tmp_path / "ours").mkdir()
    lines = [json.dumps(step) + "\n" for step in steps]
    (tmp_path / "ours" / "steps.jsonl").write_text("".join(lines), encoding="utf-8")
    results = {"runs": {"kept": {"steps": [*steps, lap | {"reward": None}]}}}
    (tmp_path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    app = typer.Typer()
    app.command()(tables.main)
    runs = [str(tmp_path / name) for name in ("results.json/kept", "skyrl.log", "ours")]
    result = CliRunner().invoke(app, [*runs, "--curve", str(tmp_path / "reward.svg")])
    assert "<!-- kept -->" in (tmp_path / "reward.svg").read_text(encoding="utf-8")
    rows = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in result.output.splitlines()}
    assert rows["generate, with judging"] == ["10.7", "18.0", "11.3", "20.3", "1.5", "4.0", "1.5 |"]
    assert rows["step"] == ["21.9", "30.6", "13.8", "22.1", "4.8", "8.0", "4.8 |"]
    assert rows["1"] == ["0.016", "0.766", "0.000", "0.766", "0.000", "0.250", "0.000 |"]
    assert rows["5"][-3:] == ["0.400", "-", "0.400 |"]
    for wrong in (tmp_path, tmp_path / "results.json" / "lost"):
        refused = CliRunner().invoke(app, [str(wrong)], env={"COLUMNS": "400"})
        assert "no finished step; give SkyRL's output" in refused.output
