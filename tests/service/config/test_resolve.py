import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

import reward_serve.templates
from reward_serve.config import resolve as resolving
from reward_serve.config.app import AppConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.models import JudgeModel, ModelConfig, RubricModel
from reward_serve.config.resolve import Build, resolve
from reward_serve.criteria import Criterion
from tests.rows import rows

TEMPLATES = Path(reward_serve.templates.__file__).parent


def args(**fields: Any) -> dict[str, Any]:
    return {"models": [{"name": "judge", "kind": "judge", **fields}]}


def resolved(**fields: Any) -> JudgeModel:
    (model,) = resolve(AppConfig.parse(args(**fields))).models
    assert isinstance(model, JudgeModel)
    return model


def fault(**fields: Any) -> str:
    parsed = AppConfig.parse(args(**fields))  # is right as far as the file goes
    with pytest.raises(ConfigError) as caught:
        resolve(parsed)
    text = str(caught.value)
    assert text.startswith("args: models.0")
    assert "\n" not in text
    return text.removeprefix("args: ")


@pytest.mark.parametrize(("build", "resources", "runs"), rows(__file__, "builds"))
def test_an_engine_on_cores_needs_a_vllm_with_kernels_for_them(
    monkeypatch: pytest.MonkeyPatch, build: Build | None, resources: dict[str, Any], runs: bool
) -> None:
    monkeypatch.setattr(resolving, "installed_build", lambda: build)
    if runs:
        assert resolved(resources=resources).engine.device
    else:
        text = fault(resources=resources)
        assert text.startswith("models.0: resources.num_gpus: 0, but the installed vLLM is built")
        assert "`reward-serve requirements cpu`" in text


LABELLED = (TEMPLATES / "solution.yaml").read_text(encoding="utf-8")
PAIR = (TEMPLATES / "groups/pairwise.yaml").read_text(encoding="utf-8")
CRITERION = (TEMPLATES / "rubrics/rubric.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("section", "template", "message"),
    [
        *rows(__file__, "templates"),
        ("judge", PAIR, "shows a pair, and this section needs one that shows a response"),
        ("judge", CRITERION, "shows a criterion, and this section needs"),
        ("group", LABELLED, "shows a response, and this section needs one that shows a pair"),
        ("rubric", LABELLED, "shows a response, and this section needs one that shows a criterion"),
        ("group", PAIR, None),
        ("judge", LABELLED, None),
    ],
)
def test_a_template_must_be_right_and_show_what_its_section_needs(
    section: str, template: str, message: str | None, tmp_path: Path
) -> None:
    if set(template) & set("{: "):
        (tmp_path / "mine.yaml").write_text(template, encoding="utf-8")
        template = str(tmp_path / "mine.yaml")
    field = "judge" if section == "rubric" else section
    fields = {field: {"template": template}, "kind": "rubric" if section == "rubric" else "judge"}
    if message is None:
        resolved(**fields)
    else:
        assert (text := fault(**fields)).startswith(f"models.0.{field}: ")
        assert message in text


def test_rules_come_first_only_in_templates_that_have_them() -> None:
    judge = {"template": "graded", "rules_first": True}
    assert "'graded' has no rules; remove rules_first" in fault(judge=judge)
    assert resolved(judge={**judge, "template": "solution"}).judge.rules_first


def test_a_replica_needs_no_template_file(tmp_path: Path) -> None:
    form = {"instruction": "End with 'MARK: <x>'.", "verdict": r"MARK: (\S+)", "example": "MARK: 1"}
    data = {"description": "", "response_tokens": 64, "system": "", "user": "{response}"}
    file = tmp_path / "ours.yaml"
    file.write_text(yaml.safe_dump({**data, "generate": form}), encoding="utf-8")
    config = AppConfig.parse(args(judge={"template": str(file), "mode": "generate"}))
    (model,) = resolve(config).models
    file.unlink()
    adapter: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
    read = adapter.validate_python(model.model_dump(mode="json"))
    assert isinstance(read, JudgeModel)
    assert read == model
    assert read.judge.default_template.name == "ours"
    assert config == AppConfig.parse(args(judge={"template": str(file), "mode": "generate"}))


@pytest.mark.parametrize(("content", "message"), rows(__file__, "rubric_files"))
def test_a_rubric_file_is_read_where_the_application_is_built(
    content: str | None, message: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "style.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    style_model = {"name": "r", "kind": "rubric", "rubric": {"rubrics": {"style": str(file)}}}
    config = AppConfig.parse({"models": [*args(judge={"template": "nope"})["models"], style_model]})
    with pytest.raises(ConfigError, match=r"models\.0\.judge: template") as refusal:
        resolve(config)  # reports the faults of all models together
    match = re.search(r"models\.1\.rubric\.rubrics\.style: .*", str(refusal.value))
    assert (match is None) is (message is None)
    assert (message or "") in str(refusal.value)
    if message is None:
        (model,) = resolve(AppConfig.parse({"models": [style_model]})).models
        assert isinstance(model, RubricModel)
        (criterion,) = TypeAdapter(list[Criterion]).validate_python(model.rubric.rubrics["style"])
        assert criterion.name == "brief"
