from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from reward_serve.cli.shipped import deployments_files, template_files
from tests.service.cli.test_serve import has_build, invoke

RULE = """applications:
  - name: reward
    import_path: reward_serve.app:build_app
    args:
      models:
        - {name: rule, kind: rule, %s}
"""


@pytest.mark.parametrize("name", deployments_files())
def test_a_shipped_file_is_right(name: str) -> None:
    result = invoke("check", name)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].startswith("total: ")


def test_it_prints_what_replicas_ask_for_and_the_sum(tmp_path: Path) -> None:
    assert invoke("check", "multi.yaml").stdout.splitlines() == [
        "judge: judge, 1 to 4 replicas of 2 CPU cores, 0 GPUs",
        "rule: rule, 2 to 16 replicas of 0.5 CPU cores, 0 GPUs",
        "reward-model: classifier, 1 to 8 replicas of 1 CPU core, 1 GPU",
        "total: 4 to 24 CPU cores, 1 to 8 GPUs",
    ]


def test_a_mistake_exits_1_and_names_the_field(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(RULE % "rule: {verifer: exact}", encoding="utf-8")
    result = invoke("check", file)
    assert result.exit_code == 1
    assert "models.0.rule.verifer: unknown field; did you mean 'verifier'?" in result.stderr


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ("kind: rule, rule: {verifier: function, function: 'absent:f'}", "rule.function: 'absent"),
        ("kind: judge, engine: {model: /none/judge}", "engine.model: there is no folder '/none/ju"),
        ("kind: judge, engine: {model: ./none}", "engine.model: there is no folder './none'"),
        ("kind: judge, engine: {model: ~/none}", "engine.model: there is no folder '~/none'"),
        (
            "kind: judge, engine: {adapter: /none/lora}",
            "engine.adapter: /none/lora has no adapter_",
        ),
    ],
)
def test_what_only_this_machine_lacks_is_a_warning(
    fields: str, warning: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_build(monkeypatch, "cpu")
    file = tmp_path / "own.yaml"
    file.write_text((RULE % fields).replace("kind: rule, kind", "kind"), encoding="utf-8")
    result = invoke("check", file)
    assert result.exit_code == 0
    assert f"on this machine, rule: {warning}" in result.stderr


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ("", "see `reward-serve deployments show judge`"),
        ("models: [{name: rule, kind: rule}]", "move models to applications.0.args, as in"),
        ("name: rule\nkind: rule", "move the model to the list applications.0.args.models, as in"),
        ("- {name: rule, kind: rule}", "move the model to the list applications.0.args.models, as"),
        ("- args: {models: []}", "move the application to the list applications, as in"),
    ],
)
def test_a_file_without_applications_is_answered_with_their_place(
    content: str, remedy: str, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(content, encoding="utf-8")
    result = invoke("check", file)
    assert result.exit_code == 1
    assert f"wrong.yaml: has no applications; {remedy}" in result.stderr


def test_one_replica_or_core_is_singular(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(RULE % "resources: {num_cpus: 1}", encoding="utf-8")
    assert invoke("check", file).stdout.splitlines() == [
        "rule: rule, 1 replica of 1 CPU core, 0 GPUs",
        "total: 1 CPU core, 0 GPUs",
    ]


def test_a_file_that_does_not_exist_is_not_only_missing_among_the_shipped_ones() -> None:
    result = invoke("check", "none.yaml")
    assert result.exit_code == 2
    assert "none.yaml: there is no such file; no shipped file" in " ".join(
        result.stderr.replace("│", " ").split()
    )


def test_a_file_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    result = invoke("check", tmp_path / "judge.json")
    assert result.exit_code == 2
    assert "must end in .yaml or .yml" in result.stderr


def schema(of: str) -> jsonschema.protocols.Validator:
    return jsonschema.Draft202012Validator(json.loads(invoke("schema", of).stdout))


@pytest.mark.parametrize("name", sorted(deployments_files()))
def test_the_schema_accepts_a_shipped_file(name: str) -> None:
    content = yaml.safe_load(deployments_files()[name].read_text(encoding="utf-8"))
    assert list(schema("deployment").iter_errors(content)) == []


@pytest.mark.parametrize("name", template_files())
def test_the_schema_accepts_a_shipped_template(name: str) -> None:
    content = yaml.safe_load(template_files()[name].read_text(encoding="utf-8"))
    assert list(schema("template").iter_errors(content)) == []


def test_the_schema_of_a_rubric_accepts_the_shipped_one_and_refuses_a_misspelt_weight() -> None:
    file = yaml.safe_load(deployments_files()["rubric.yaml"].read_text(encoding="utf-8"))
    (model,) = file["applications"][0]["args"]["models"]
    criteria = model["rubric"]["rubrics"]["helpful"]
    assert list(schema("rubric").iter_errors(criteria)) == []
    (error,) = schema("rubric").iter_errors([{**criteria[0], "wieght": 1}])
    assert "wieght" in error.message


def test_the_schema_refuses_an_unknown_field() -> None:
    content = yaml.safe_load(RULE % "rule: {verifer: exact}")
    (error,) = schema("deployment").iter_errors(content)
    assert "verifer" in str(error)
    (error,) = schema("deployment").iter_errors({**yaml.safe_load(RULE % "rule: {}"), "host": "x"})
    assert "'host' was unexpected" in error.message
