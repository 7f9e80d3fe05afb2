from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reward_serve.cli.main import cli
from reward_serve.engines.checkpoint import CheckpointError
from reward_serve_lab.cli import template
from tests.service.lab.conftest import Write


def check(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["template", "check", *map(str, arguments)])


def test_a_finding_is_a_line_and_an_error_exits_1(write: Write) -> None:
    file = write(user="{response}")
    result = check(file)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{file}: error: user: {{response}} is not inside a fence; ")
    assert lines[1].startswith(f"{file}: warning: user: does not contain {{reference}}; ")
    assert len(lines) == 2


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(model: str) -> None:
        raise CheckpointError(f"engine.model: {model!r} is not in this machine's cache")

    monkeypatch.setattr(template, "check_hub_id", unreachable)


@pytest.mark.usefixtures("no_hub")
def test_a_model_unknown_to_the_hub_is_named(write: Write) -> None:
    result = check(write(), "--model", "org/judge")
    assert result.exit_code == 1
    assert result.stderr == "--model org/judge: 'org/judge' is not in this machine's cache\n"


@pytest.mark.usefixtures("no_hub")
def test_a_rubrics_check_needs_no_model(tmp_path: Path) -> None:
    file = tmp_path / "support.yaml"
    file.write_text("[{name: a, text: It answers., weight: -1}, {text: x}]", encoding="utf-8")
    arguments = ["rubric", "check", str(file), "--model", "org/judge"]
    wrong = CliRunner().invoke(cli, arguments)
    file.write_text("[{name: a, text: It answers., required: true}]", encoding="utf-8")
    right = CliRunner().invoke(cli, arguments)
    assert wrong.stderr.startswith("on this machine, --model org/judge: 'org/judge' is not in this")
    assert (wrong.exit_code, f"{file}: error: 1.name" in wrong.stdout) == (1, True)
    assert (right.exit_code, right.stdout) == (0, f"{file}: no findings\n")
