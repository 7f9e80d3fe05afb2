from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from reward_serve.app import deployment_options
from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.models import (
    ClassifierModel,
    CompositeModel,
    JudgeModel,
    RemoteModel,
    RuleModel,
)

FOLDER = Path(__file__).resolve().parents[2] / "deployments"
GATEWAY = "reward_serve.app:build_gateway"
FILES = sorted(FOLDER.glob("*.yaml"))

every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def served(file: Path) -> ServeDeploySchema:
    return ServeDeploySchema.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))


def parsed(file: Path) -> list[AppConfig]:
    return [
        AppConfig.parse(application.args)
        for application in served(file).applications
        if application.import_path != GATEWAY
    ]


def only_judge(name: str) -> tuple[JudgeModel, dict[str, Any]]:
    ((model,),) = [config.models for config in parsed(FOLDER / name)]
    assert isinstance(model, JudgeModel)
    return model, deployment_options(model)


def test_there_are_files_to_check() -> None:
    assert {file.name for file in FILES} >= {
        "judge.yaml",
        "judge-gpu.yaml",
        "classifier.yaml",
        "openai.yaml",
        "rule.yaml",
        "multi.yaml",
        "composite.yaml",
        "rubric.yaml",
        "cascade.yaml",
        "qwen3-thinking.yaml",
    }


@every_file
def test_a_file_listens_on_this_machine_alone(file: Path) -> None:
    assert served(file).http_options.host == "127.0.0.1"


@every_file
def test_a_files_arguments_are_right(file: Path) -> None:
    assert [config for config in parsed(file) if not config.models] == []


@every_file
def test_a_file_builds_our_application(file: Path) -> None:
    applications = served(file).applications
    paths = {application.import_path for application in applications}
    assert paths - {GATEWAY} == {"reward_serve.app:build_app"}


@every_file
def test_no_file_trusts_remote_code(file: Path) -> None:
    judges = [m for config in parsed(file) for m in config.models if isinstance(m, JudgeModel)]
    assert [judge.name for judge in judges if judge.engine.trust_remote_code] == []


def test_the_bundled_judge_asks_for_no_gpu() -> None:
    model, options = only_judge("judge.yaml")
    assert (model.engine.model, model.engine.device) == ("bundled", "cpu")
    assert options["ray_actor_options"] == {"num_cpus": 2.0, "num_gpus": 0.0}
    assert "placement_group_bundles" not in options
    assert (model.judge.mode, model.judge.rules_first) == ("label", True)


def test_the_large_judge_asks_for_exactly_its_gpus() -> None:
    model, options = only_judge("judge-gpu.yaml")
    size = model.engine.tensor_parallel_size
    assert model.engine.device == "cuda"
    bundles = options.get("placement_group_bundles", [])
    asked = sum(b["GPU"] for b in bundles) if bundles else options["ray_actor_options"]["num_gpus"]
    assert asked == size


def test_the_large_judges_bounds() -> None:
    model, options = only_judge("judge-gpu.yaml")
    assert model.engine.model == "Qwen/Qwen2.5-1.5B-Instruct"
    assert model.engine.max_model_len == 4096
    assert model.judge.max_tokens == 512
    scaling = options["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (1, 8)


def test_the_classifier_asks_for_one_gpu() -> None:
    ((model,),) = [config.models for config in parsed(FOLDER / "classifier.yaml")]
    assert isinstance(model, ClassifierModel)
    assert model.engine.model == "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"
    assert deployment_options(model)["ray_actor_options"] == {"num_cpus": 1.0, "num_gpus": 1.0}


def test_the_rule_asks_for_many_small_replicas_and_no_gpu() -> None:
    ((model,),) = [config.models for config in parsed(FOLDER / "rule.yaml")]
    assert isinstance(model, RuleModel)
    assert model.rule.verifier == "gsm8k"
    options = deployment_options(model)
    assert options["ray_actor_options"] == {"num_cpus": 0.5, "num_gpus": 0.0}
    assert "placement_group_bundles" not in options
    scaling = options["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (2, 16)


def test_the_thinking_judge_asks_for_four_gpus_of_one_node() -> None:
    model, options = only_judge("qwen3-thinking.yaml")
    assert model.engine.model == "Qwen/Qwen3-32B"
    assert (model.engine.tensor_parallel_size, model.resources.num_gpus) == (4, 4.0)
    assert options["placement_group_bundles"] == [{"CPU": 1.0, "GPU": 4.0}]
    assert options["placement_group_strategy"] == "STRICT_PACK"


def test_the_thinking_judge_has_room_to_think_and_to_conclude() -> None:
    model, _ = only_judge("qwen3-thinking.yaml")
    assert (model.judge.mode, model.judge.template) == ("generate", "detailed")
    assert model.judge.enable_thinking
    assert model.judge.thinking_tokens is not None
    assert model.judge.thinking_tokens < model.judge.max_tokens < model.engine.max_model_len
    assert model.judge.temperature > 0


def test_the_remote_judge_asks_for_no_gpu_and_holds_no_key() -> None:
    ((model,),) = [config.models for config in parsed(FOLDER / "openai.yaml")]
    assert isinstance(model, RemoteModel)
    assert model.remote.model == "gpt-4o-mini"
    assert deployment_options(model)["ray_actor_options"] == {"num_cpus": 1.0, "num_gpus": 0.0}
    assert "sk-" not in (FOLDER / "openai.yaml").read_text(encoding="utf-8")


def test_each_model_of_the_gateway_is_an_application_of_its_own_without_a_port() -> None:
    *models, gateway = served(FOLDER / "multi.yaml").applications
    assert (gateway.import_path, gateway.route_prefix) == (GATEWAY, "/")
    assert {application.route_prefix for application in models} == {None}
    config = GatewayConfig.parse(gateway.args)
    assert {model.application: [model.name] for model in config.models} == {
        application.name: [model.name for model in AppConfig.parse(application.args).models]
        for application in models
    }


def test_the_gateways_classifier_alone_asks_for_a_gpu() -> None:
    models = [model for config in parsed(FOLDER / "multi.yaml") for model in config.models]
    gpus = {m.name: deployment_options(m)["ray_actor_options"]["num_gpus"] for m in models}
    assert gpus == {"judge": 0.0, "rule": 0.0, "reward-model": 1.0}
    assert [model.kind for model in models] == ["judge", "rule", "classifier"]


def test_the_composite_asks_for_no_gpu_and_little_of_a_core() -> None:
    ((composite, *members),) = [config.models for config in parsed(FOLDER / "composite.yaml")]
    assert isinstance(composite, CompositeModel)
    assert {member.model for member in composite.composite.members} == {
        each.name for each in members
    }
    options = [deployment_options(each)["ray_actor_options"] for each in (composite, *members)]
    assert sum(each["num_gpus"] for each in options) == 0
    assert options[0]["num_cpus"] == 0.5
