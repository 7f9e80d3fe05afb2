"""``serve``: the file that it makes of its options, what it refuses, and a service of its own."""

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

import reward_serve.cli.options
import reward_serve.cli.serve
import reward_serve.config.resolve
from reward_serve.app import deployment_options
from reward_serve.cli.launch import LaunchError
from reward_serve.cli.serve import served
from reward_serve.cli.shipped import deployments_files
from reward_serve.client import HttpRewardClient
from reward_serve.config.app import AppConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.models import JudgeModel
from reward_serve.config.resolve import Build
from tests.fake_service import dead_url, free_port
from tests.rows import rows
from tests.unit.cli.test_main import invoke

ROOT = Path(__file__).resolve().parents[3]
QWEN = "Qwen/Qwen2.5-1.5B-Instruct"


def dry_run(*arguments: object) -> ServeDeploySchema:
    result = invoke("serve", *arguments, "--dry-run")
    assert result.exit_code == 0, result.output
    return ServeDeploySchema.model_validate(yaml.safe_load(result.stdout))


def application(schema: ServeDeploySchema) -> AppConfig:
    (app,) = schema.applications
    assert app.import_path == "reward_serve.app:build_app"
    return AppConfig.parse(app.args)


def judge(*arguments: object) -> JudgeModel:
    (model,) = application(dry_run(*arguments)).models
    assert isinstance(model, JudgeModel)
    return model


def has_build(monkeypatch: pytest.MonkeyPatch, build: Build | None) -> None:
    for module in (reward_serve.cli.options, reward_serve.config.resolve):
        monkeypatch.setattr(module, "installed_build", lambda: build)


def test_without_options_it_is_the_shipped_file() -> None:
    shipped = yaml.safe_load(deployments_files()["judge.yaml"].read_text(encoding="utf-8"))
    assert yaml.safe_load(invoke("serve", "--dry-run").stdout) == shipped


def test_a_model_is_named_by_its_folder_or_hub_id(tmp_path: Path) -> None:
    (folder := tmp_path / "my judge").mkdir()
    model = judge(folder)
    assert (model.name, model.engine.model) == ("my-judge", str(folder))
    (classifier,) = application(dry_run("org/reward-model", "--kind", "classifier")).models
    assert (classifier.name, classifier.kind) == ("reward-model", "classifier")


def test_a_hub_id_over_two_gpus() -> None:
    config = application(dry_run(QWEN, "--tp", 2, "--replicas", "1:4"))
    (model,) = config.models
    assert isinstance(model, JudgeModel)
    assert (model.engine.model, model.engine.tensor_parallel_size) == (QWEN, 2)
    assert config.server.aliases == {QWEN: model.name}
    options = deployment_options(model)
    assert options["placement_group_bundles"] == [{"CPU": 1.0, "GPU": 2.0}]
    scaling = options["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (1, 4)


@pytest.mark.parametrize(("build", "arguments", "device", "gpus"), rows(__file__, "devices"))
def test_a_model_runs_where_the_options_say_or_the_installed_vllm_can(
    monkeypatch: pytest.MonkeyPatch,
    build: Build | None,
    arguments: list[object],
    device: str,
    gpus: float,
) -> None:
    has_build(monkeypatch, build)
    model = judge(*arguments)
    assert (model.engine.device, model.resources.num_gpus) == (device, gpus)
    if QWEN in arguments:
        assert model.engine.max_num_seqs == (256 if device == "cuda" else 64)


def test_another_template_takes_its_own_rules_and_is_a_warning_for_the_bundled_judge() -> None:
    warning = "was trained on the template final_answer alone"
    assert warning not in invoke("serve", "--dry-run").stderr
    assert warning in invoke("serve", "--template", "graded", "--dry-run").stderr
    model = judge("bundled", "--template", "graded")
    assert (model.judge.template, model.judge.rules_first) == ("graded", None)


@pytest.mark.parametrize("model", ["bundled", "judge.yaml"])
def test_fields_and_keys_are_set_in_any_file(model: str, tmp_path: Path) -> None:
    fields = ["--set", "engine.max_model_len=4096", "--set", "server.num_replicas=2"]
    config = application(dry_run(model, *fields, "--api-keys-file", tmp_path / "keys"))
    assert isinstance(configured := config.models[0], JudgeModel)
    assert (configured.engine.max_model_len, config.server.num_replicas) == (4096, 2)
    assert config.server.api_keys_file == str(tmp_path / "keys")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        *rows(__file__, "invalid"),
        ([QWEN, "--tp", 2, "--gpus", 1], "num_gpus"),
        ([QWEN, "--device", "cpu", "--tp", 2], "tensor_parallel_size"),
    ],
)
def test_invalid_arguments_are_refused_by_name(arguments: list[object], fault: str) -> None:
    result = invoke("serve", *arguments, "--dry-run")
    assert result.exit_code != 0
    assert fault in result.stderr


def test_what_cannot_be_served_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", dead_url())
    (folder := tmp_path / "judge").mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    beside = ["--set", "applications.0.runtime_env={}", "--address", "127.0.0.1:1"]
    wrong: list[tuple[list[object], str]] = [
        (["rule.yaml", "--set", "http_options.port=x"], "http_options.port: Input should be a"),
        (["rule.yaml", *beside], "applications.0.runtime_env: not supported with --address"),
        (["rule.yaml", "--address", "ray://127.0.0.1:10001"], "--address ray://127.0.0.1:10001: "),
        (["openai.yaml"], "judge: remote.api_key_env: OPENAI_API_KEY is not set; set it"),
        ([folder], "judge: engine.model: "),
        ([QWEN], f"engine.model: {QWEN!r}"),
    ]
    for arguments, fault in wrong:
        result = invoke("serve", *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        *before, last = result.stderr.splitlines()
        assert last.startswith(fault), result.stderr
        assert len(before) == (arguments[0] in (folder, QWEN))  # its profile
        assert not ray.is_initialized()


def test_a_dry_run_says_what_this_machine_lacks_beside_the_file(tmp_path: Path) -> None:
    folder = str(tmp_path / "none")
    result = invoke("serve", folder, "--dry-run")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["applications"]
    assert f"on this machine, none: engine.model: there is no folder '{folder}'" in result.stderr


def test_a_ray_that_does_not_start_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_slow(**settings: Any) -> None:
        raise RuntimeError("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", too_slow)
    result = invoke("serve", "rule.yaml", "--port", free_port())
    assert result.exit_code == 1
    assert "Ray did not start; try again: The current node timed out" in result.stderr


class Service:
    """``reward-serve serve rule.yaml`` in a session of its own, as a shell's background has it."""

    def __init__(self, log: Path, **variables: str) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self._log = log
        self._mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "reward_serve", "serve", "rule.yaml", "--port", str(port)]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, "TEST_MARK": self._mark, **variables},
                stderr=out,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
            )

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def family(self) -> list[psutil.Process]:
        """Processes that were started with its environment, itself among them."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                marked = process.environ().get("TEST_MARK") == self._mark
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
        return processes

    def commands(self) -> str:
        """The command lines of its family."""
        lines = []
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                lines.append(" ".join(process.cmdline()))
        return "\n".join(lines)

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
    ("number", "to_group"),
    [
        pytest.param(signal.SIGINT, False, marks=pytest.mark.slow),
        (signal.SIGTERM, False),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow),  # as systemd does
    ],
)
def test_signals_leave_no_process(number: signal.Signals, to_group: bool, service: Service) -> None:
    until(service.serves, 400, service.log)
    with HttpRewardClient(service.url) as client:
        assert client.score({"response": "#### 18", "reference": "18"}).score == 1.0
    assert f"reward-serve ui --url {service.url}" in service.log().splitlines()
    (metrics,) = re.findall(r"metrics of this node: (\S+)", service.log())
    assert "ray_" in httpx.get(metrics).text
    (os.killpg if to_group else os.kill)(service.process.pid, number)
    assert service.process.wait(60) == 0, service.log()
    until(lambda: not service.family(), 60, service.log)
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.url)


@pytest.mark.slow
@pytest.mark.parametrize("starting", ["gcs_server", "raylet/raylet", "ray.serve.scripts"])
def test_ctrl_c_while_it_starts_leaves_no_process(starting: str, service: Service) -> None:
    until(lambda: starting in service.commands(), 200, service.log)
    os.killpg(service.process.pid, signal.SIGINT)  # as a terminal does
    assert service.process.wait(60) == 0, service.log()
    until(lambda: not service.family(), 60, service.log)


def test_a_file_is_served_for_a_block_at_a_free_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deployed: list[Any] = []

    @contextlib.contextmanager
    def deploy(file: Any, address: None, out: object) -> Iterator[None]:
        if deployed:
            raise LaunchError("reward: deploy_failed: no room")
        deployed.append(file)
        yield
        deployed.append("ended")

    monkeypatch.setattr(reward_serve.cli.serve, "deployed", deploy)
    monkeypatch.setattr(reward_serve.cli.serve, "wait_until", lambda *ready: None)
    with served("rule.yaml") as url:
        assert deployed[0].urls == [url] != ["http://127.0.0.1:8000"]
        assert len(deployed) == 1
    assert deployed[1] == "ended"
    with pytest.raises(ConfigError, match="no room"), served("rule.yaml"):
        pass
    hidden = yaml.safe_load(deployments_files()["rule.yaml"].read_text(encoding="utf-8"))
    hidden["applications"][0]["route_prefix"] = None
    (tmp_path / "hidden.yaml").write_text(yaml.safe_dump(hidden), encoding="utf-8")
    with (
        pytest.raises(ConfigError, match="has 0 URLs; serve it"),
        served(str(tmp_path / "hidden.yaml")),
    ):
        pass
