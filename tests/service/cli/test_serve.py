from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import ray
import yaml
from ray.serve.schema import ServeDeploySchema
from typer.testing import CliRunner, Result

import reward_serve.cli.options
import reward_serve.config.resolve
from reward_serve.app import deployment_options
from reward_serve.cli.main import cli
from reward_serve.cli.shipped import deployments_files
from reward_serve.client.http import HttpRewardClient
from reward_serve.config.app import AppConfig
from reward_serve.config.models import ClassifierModel, JudgeModel
from reward_serve.config.resolve import Build
from tests.fake_service import dead_url, free_port

ROOT = Path(__file__).resolve().parents[3]
QWEN = "Qwen/Qwen2.5-1.5B-Instruct"


def invoke(*arguments: object) -> Result:
    runner = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})
    return runner.invoke(cli, [str(argument) for argument in arguments])


def dry_run(*arguments: object) -> ServeDeploySchema:
    result = invoke("serve", *arguments, "--dry-run")
    assert result.exit_code == 0, result.output
    return ServeDeploySchema.model_validate(yaml.safe_load(result.stdout))


def application(schema: ServeDeploySchema) -> AppConfig:
    (app,) = schema.applications
    assert app.import_path == "reward_serve.app:build_app"
    return AppConfig.parse(app.args)


def has_build(monkeypatch: pytest.MonkeyPatch, build: Build | None) -> None:
    for module in (reward_serve.cli.options, reward_serve.config.resolve):
        monkeypatch.setattr(module, "installed_build", lambda: build)


def test_without_options_it_is_the_shipped_file() -> None:
    shipped = yaml.safe_load(deployments_files()["judge.yaml"].read_text(encoding="utf-8"))
    assert yaml.safe_load(invoke("serve", "--dry-run").stdout) == shipped


def test_a_hub_id_over_two_gpus() -> None:
    schema = dry_run(QWEN, "--tp", 2, "--replicas", "1:4")
    config = application(schema)
    (model,) = config.models
    assert isinstance(model, JudgeModel)
    assert (model.engine.model, model.engine.tensor_parallel_size) == (QWEN, 2)
    assert config.server.aliases == {QWEN: model.name}
    options = deployment_options(model)
    assert options["placement_group_bundles"] == [{"CPU": 1.0, "GPU": 2.0}]
    scaling = options["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (1, 4)
    assert schema.http_options.host == "127.0.0.1"


@pytest.mark.parametrize(
    ("build", "options", "device", "gpus"),
    [
        ("cpu", [], "cpu", 0.0),
        ("cpu", ["--gpus", 1], "cuda", 1.0),
        ("cuda", [], "cuda", 1.0),
        ("cuda", ["--gpus", 0.5], "cuda", 0.5),
        (None, [], "cuda", 1.0),
    ],
)
def test_a_hub_id_runs_where_the_installed_vllm_can(
    monkeypatch: pytest.MonkeyPatch,
    build: Build | None,
    options: list[object],
    device: str,
    gpus: float,
) -> None:
    has_build(monkeypatch, build)
    (model,) = application(dry_run(QWEN, *options)).models
    assert isinstance(model, JudgeModel)
    assert (model.engine.device, model.resources.num_gpus) == (device, gpus)


@pytest.mark.parametrize(
    "options",
    [
        [QWEN, "--tp", 2, "--replicas", "1:2"],
        [QWEN, "--gpus", 1, "--replicas", "1:4"],
        [QWEN, "--device", "cuda", "--replicas", "1:4"],
        ["org/reward-model", "--kind", "classifier", "--device", "cuda"],
        ["bundled", "--device", "cuda"],
        ["bundled", "--gpus", 0.2],
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_a_file_for_gpus_does_not_depend_on_the_machine_that_prints_it(
    monkeypatch: pytest.MonkeyPatch, options: list[object]
) -> None:
    printed = []
    for build in ("cpu", "cuda", None):
        has_build(monkeypatch, build)
        printed.append(invoke("serve", *options, "--dry-run").stdout)
    assert printed[0]
    assert set(printed) == {printed[0]}
    (model,) = application(dry_run(*options)).models
    assert isinstance(model, JudgeModel | ClassifierModel)
    assert model.engine.device == "cuda"
    if options[0] != "bundled":
        engine = yaml.safe_load(printed[0])["applications"][0]["args"]["models"][0]["engine"]
        assert (engine["device"], engine["dtype"], engine["max_num_seqs"]) == ("cuda", "auto", 256)


def test_a_file_for_a_cpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    has_build(monkeypatch, "cpu")
    for options in ([], ["--gpus", 0], ["--device", "cpu"]):
        printed = yaml.safe_load(invoke("serve", QWEN, *options, "--dry-run").stdout)
        engine = printed["applications"][0]["args"]["models"][0]["engine"]
        assert engine["device"] == "cpu"
        assert "max_num_seqs" not in engine


def test_under_the_cuda_build_the_bundled_judge_takes_a_share_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_build(monkeypatch, "cuda")
    (model,) = application(dry_run()).models
    assert model.resources.num_gpus == 0.1


def test_under_the_cuda_build_a_file_without_gpus_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_build(monkeypatch, "cuda")
    result = invoke("serve", "judge.yaml", "--dry-run")
    assert result.exit_code == 1
    assert "resources.num_gpus" in result.stderr
    assert "reward-serve requirements cpu" in result.stderr


def test_a_folder_is_named_by_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "my judge"
    folder.mkdir()
    (model,) = application(dry_run(folder, "--cpus", 3, "--no-rules")).models
    assert isinstance(model, JudgeModel)
    assert (model.name, model.engine.model) == ("my-judge", str(folder))
    assert (model.resources.num_cpus, model.judge.rules_first) == (3.0, False)


def test_a_template_without_rules_is_served_without_rules() -> None:
    (model,) = application(dry_run("bundled", "--template", "graded")).models
    assert isinstance(model, JudgeModel)
    assert (model.judge.template, model.judge.rules_first) == ("graded", None)


@pytest.mark.parametrize(
    ("options", "warned"),
    [([], False), (["--template", "graded"], True), (["--adapter", "none"], False)],
)
def test_another_template_for_the_bundled_judge_is_a_warning(
    options: list[str], warned: bool
) -> None:
    result = invoke("serve", *options, "--dry-run")
    assert result.exit_code == 0
    assert ("was trained on the template final_answer alone" in result.stderr) is warned


def test_rules_that_the_template_does_not_have_are_refused() -> None:
    result = invoke("serve", "bundled", "--template", "graded", "--rules", "--dry-run")
    assert result.exit_code == 1
    assert "template 'graded' has no rules" in result.stderr


def test_any_field_is_set_by_its_path(tmp_path: Path) -> None:
    fields = ["judge.inline_templates=true", "engine.max_model_len=4096", "server.num_replicas=2"]
    options = [option for field in fields for option in ("--set", field)]
    for model in ("bundled", "judge.yaml"):
        config = application(dry_run(model, *options, "--verdict-log", tmp_path / "log"))
        (judge,) = config.models
        assert isinstance(judge, JudgeModel)
        assert (judge.judge.inline_templates, judge.engine.max_model_len) == (True, 4096)
        assert config.server.num_replicas == 2
        assert judge.verdict_log.folder == str(tmp_path / "log")


def test_a_classifier() -> None:
    (model,) = application(dry_run("org/reward-model", "--kind", "classifier")).models
    assert isinstance(model, ClassifierModel)
    assert model.name == "reward-model"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["judge.yaml", "--tp", 2], "--tp"),
        (["none.yaml"], "none.yaml"),
        (["--replicas", "many"], "MIN:MAX"),
        (["--replicas", "4:1"], "max_replicas"),
        (["--template", "none"], "template"),
        ([QWEN, "--adapter", "lora"], "adapter"),
        ([QWEN, "--tp", 2, "--gpus", 1], "num_gpus"),
        ([QWEN, "--device", "cpu", "--tp", 2], "tensor_parallel_size"),
        ([QWEN, "--device", "cuda", "--gpus", 0], "num_gpus"),
        (["judge.yaml", "--device", "cuda"], "--device"),
        (["--set", "judge.max_token=1"], "judge.max_token: unknown field; did you mean"),
        (["--set", "max_queued_items=many"], "max_queued_items"),
    ],
)
def test_invalid_arguments_are_refused_by_name(arguments: list[object], fault: str) -> None:
    result = invoke("serve", *arguments, "--dry-run")
    assert result.exit_code != 0
    assert fault in result.stderr


@pytest.mark.parametrize(
    ("http", "fault"),
    [
        ("hots: 127.0.0.1", "http_options.hots: unknown field; did you mean 'host'?"),
        ("port: eighty", "http_options.port: Input should be a valid integer"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--port", 9000]])
def test_a_mistake_outside_args_is_one_line(
    http: str, fault: str, options: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "rule.yaml"
    shipped = deployments_files()["rule.yaml"].read_text(encoding="utf-8")
    path.write_text(shipped.replace("host: 127.0.0.1\n  port: 8000", http), encoding="utf-8")
    result = invoke("serve", path, *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(fault)
    assert result.stderr.count("\n") == 1
    assert not ray.is_initialized()


def test_a_file_without_a_host_is_served_on_this_machine_alone(tmp_path: Path) -> None:
    path = tmp_path / "rule.yaml"
    shipped = deployments_files()["rule.yaml"].read_text(encoding="utf-8")
    path.write_text(shipped.replace("  host: 127.0.0.1\n", ""), encoding="utf-8")
    assert dry_run(path).http_options.host == "127.0.0.1"


def test_beside_other_applications_a_field_that_would_be_ignored_is_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rule.yaml"
    shipped = deployments_files()["rule.yaml"].read_text(encoding="utf-8")
    path.write_text(shipped + "    runtime_env: {}\n", encoding="utf-8")
    result = invoke("serve", path, "--address", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("applications.0.runtime_env: not supported with --address")


@pytest.mark.parametrize(
    ("given", "is_open"),
    [({}, False), ({"host": "0.0.0.0"}, True), ({"host": "0.0.0.0", "keys": "keys"}, False)],
)
def test_other_machines_may_ask_without_a_key_where_the_host_is_open(
    given: dict[str, Any], is_open: bool
) -> None:
    keys = Path(given["keys"]) if "keys" in given else None
    options = reward_serve.cli.options.Options(host=given.get("host"), api_keys_file=keys)
    file = reward_serve.cli.options.deployments_file("bundled", options)
    assert file.is_open is is_open


def test_a_hub_id_without_a_network_ends_before_ray_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", dead_url())
    result = invoke("serve", QWEN)
    assert result.exit_code == 1
    assert QWEN in result.stderr
    assert "--local-dir" in result.stderr
    assert not ray.is_initialized()


def with_function(path: str, folder: Path) -> Path:
    file = folder / "function.yaml"
    shipped = deployments_files()["rule.yaml"].read_text(encoding="utf-8")
    rule = f"verifier: function\n            function: {path}"
    file.write_text(shipped.replace("verifier: gsm8k", rule), encoding="utf-8")
    return file


def test_a_key_that_is_not_set_ends_before_ray_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = invoke("serve", "openai.yaml")
    assert result.exit_code == 1
    assert result.stderr.startswith("judge: remote.api_key_env: OPENAI_API_KEY is not set; set it")
    assert result.stderr.count("\n") == 1
    assert not ray.is_initialized()


def test_a_function_that_cannot_be_imported_ends_before_ray_starts(tmp_path: Path) -> None:
    result = invoke("serve", with_function("nowhere:score", tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith("rule: rule.function: 'nowhere:score' cannot be imported")
    assert result.stderr.count("\n") == 1
    assert not ray.is_initialized()


def test_a_dry_run_says_what_this_machine_lacks_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def score(r, g, q): return 1.0\n", encoding="utf-8")
    assert invoke("serve", with_function("mine:score", tmp_path), "--dry-run").stderr == ""
    result = invoke("serve", with_function("mine:scroe", tmp_path), "--dry-run")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["applications"]
    assert result.stderr.startswith("on this machine, rule: rule.function: 'mine:scroe' cannot be")


def test_a_folder_that_cannot_be_served_ends_before_ray_starts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    result = invoke("serve", tmp_path)
    assert result.exit_code == 1
    assert "tokenizer" in result.stderr
    assert not ray.is_initialized()


def test_a_cluster_is_joined_from_one_of_its_machines() -> None:
    result = invoke("serve", "rule.yaml", "--address", "ray://127.0.0.1:10001")
    assert result.exit_code == 1
    assert "--address auto" in result.stderr


def test_ray_is_started_again_where_its_processes_were_too_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = []

    def too_slow(**settings: Any) -> None:
        starts.append(settings)
        raise RuntimeError("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", too_slow)
    result = invoke("serve", "rule.yaml", "--port", free_port())
    assert result.exit_code == 1
    assert "Ray did not start; try again: The current node timed out" in result.stderr
    assert len(starts) == 3


class Service:
    """``reward-serve serve rule.yaml`` in a session of its own, as a shell's background has it."""

    def __init__(self, log: Path) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._log = log
        self._mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "reward_serve", "serve", "rule.yaml", "--port", str(port)]
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TEST_MARK": self._mark},
                stderr=out,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
            )

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def family(self) -> list[psutil.Process]:
        """Processes that were started with its environment, itself among them."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                marked = process.environ().get("TEST_MARK") == self._mark
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def started(self, what: str) -> list[psutil.Process]:
        """The processes of its family with this in their command line."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                if what in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def serves(self) -> bool:
        assert self.process.poll() is None, self.log()
        return f"REWARD_SERVE_URL={self.url}" in self.log()


def until(condition: Callable[[], bool], within_s: float, log: Callable[[], str]) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, log()
        time.sleep(0.02)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "log")
    yield service
    service.process.kill()


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM],
    ids=lambda number: number.name,
)
def test_it_serves_until_a_signal_and_leaves_no_process(
    number: signal.Signals, service: Service
) -> None:
    until(service.serves, 400, service.log)
    with HttpRewardClient(service.url) as client:
        assert client.score({"response": "#### 18", "reference": "18"}).score == 1.0
    (workbench,) = [line for line in service.log().splitlines() if "reward-serve ui" in line]
    url, metrics = re.findall(r"http://\S+", workbench)
    assert url == service.url
    assert "ray_" in httpx.get(metrics).text
    service.process.send_signal(number)
    assert service.process.wait(60) == 0, service.log()
    until(lambda: not service.family(), 60, service.log)
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.url)


@pytest.mark.slow
@pytest.mark.parametrize("starting", ["gcs_server", "raylet/raylet", "ray.serve.scripts"])
def test_ctrl_c_while_it_starts_leaves_no_process(starting: str, service: Service) -> None:
    until(lambda: bool(service.started(starting)), 200, service.log)
    os.killpg(service.process.pid, signal.SIGINT)  # as a terminal does
    assert service.process.wait(60) == 0, service.log()
    until(lambda: not service.family(), 60, service.log)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["raylet/raylet", "gcs_server"])
def test_it_ends_with_a_reason_and_leaves_no_process_when_ray_is_killed(
    what: str, service: Service
) -> None:
    until(service.serves, 400, service.log)
    service.started(what)[0].kill()
    assert service.process.wait(60) == 1, service.log()
    name = {"raylet/raylet": "raylet", "gcs_server": "GCS"}[what]
    assert f"Ray's {name} has died: nothing listens on " in service.log()
    until(lambda: not service.family(), 60, service.log)
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.url + "/health", timeout=5)


@pytest.mark.slow
def test_a_signal_to_its_group_ends_it_at_once(service: Service) -> None:
    until(service.serves, 400, service.log)
    os.killpg(service.process.pid, signal.SIGTERM)  # as systemd does
    assert service.process.wait(60) == 0, service.log()
    until(lambda: not service.family(), 60, service.log)
