import threading
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import reward_serve.cli.doctor
import reward_serve.cli.main
from reward_serve.cli.doctor import doctor
from reward_serve.cli.main import add_commands, cli
from reward_serve.client.check import Finding
from tests.fake_service import FakeService, Reply, dead_url

ROOT = Path(__file__).resolve().parents[3]
KEY = "s3cret-0123456789"


def written(folder: Path, *lines: str) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def invoke(*arguments: object) -> Result:
    runner = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})
    return runner.invoke(cli, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("finding", "code"),
    [
        (Finding("python", "3.11"), 0),
        (Finding("environment", "ray 2.51", "reinstall", warning=True), 0),
        (Finding("ray", "not installed", "pip install 'reward-serve[serve]'"), 1),
        (Finding("bundled judge", "/" + "folder/" * 60, "rm -r it"), 1),
    ],
)
def test_doctor_prints_findings_with_their_remedies_and_fails_for_problems(
    finding: Finding, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reward_serve.cli.doctor, "examine_machine", lambda: [finding])
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["doctor"])
    assert (result.exit_code, result.stderr) == (code, f"{finding}\n")


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


def test_wait_ends_when_the_service_can_score_or_time_is_up(service: FakeService) -> None:
    service.replies["/ready"] = Reply({"detail": "starting"}, 503)
    threading.Timer(0.7, service.replies.clear).start()
    assert invoke("wait", "--url", service.url, "--timeout-s", "60").exit_code == 0
    assert len([call for call in service.calls if call.path == "/ready"]) > 1
    url = dead_url()
    for options, printed in (([], f"{url}: not ready after 0 s\n"), (["--quiet"], "")):
        late = invoke("wait", "--url", url, "--timeout-s", "0", *options)
        assert (late.exit_code, late.stderr) == (1, printed)


def test_the_service_is_given_by_an_option_or_else_the_environment(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    assert invoke("wait", "--timeout-s", 0).exit_code == 0
    monkeypatch.setenv("REWARD_SERVE_URL", f"{service.url},http://127.0.0.1:1")
    several = invoke("wait", "--timeout-s", 0)
    assert several.exit_code == 2
    assert "has several URLs" in several.stderr
    assert invoke("wait", "--url", service.url, "--timeout-s", 0).exit_code == 0


def test_ask_prints_a_score_or_why_there_is_none(service: FakeService) -> None:
    scored = invoke("ask", "9 + 9?", "#### 18", "--reference", "18", "--url", service.url)
    assert scored.exit_code == 0, scored.output
    assert scored.stdout.splitlines()[:3] == ["score: 1.0", "status: ok", "source: rule"]
    (request,) = service.calls[-1].body["requests"]
    assert (request["question"], request["reference"]) == ("9 + 9?", ["18"])
    absent = invoke("ask", "", "#### 18", "--url", service.url)
    assert absent.exit_code == 1
    assert absent.stdout.startswith("status: invalid\n")
    assert "reason: reference: " in absent.stdout
    unreachable = invoke("ask", "", "18", "--url", dead_url())
    assert unreachable.exit_code == 1
    assert "is a service running there?" in unreachable.output


def test_a_variables_key_is_unseen(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = ("ask", "", "18", "--reference", "18", "--url", service.url)
    monkeypatch.setenv("REWARD_SERVE_API_KEY", KEY)
    assert invoke(*asking).exit_code == 0
    assert service.calls[-1].headers["authorization"] == f"Bearer {KEY}"
    service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
    refused = invoke(*asking)
    assert refused.exit_code == 1
    assert "unknown API key; set REWARD_SERVE_API_KEY to one of" in refused.output
    monkeypatch.setenv("REWARD_SERVE_API_KEY", "s3cret\x07-0123456789")
    unsendable = invoke(*asking)
    assert unsendable.exit_code == 2
    assert "REWARD_SERVE_API_KEY" in unsendable.output
    assert "s3cret" not in refused.output + unsendable.output
