from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reward_serve.app import deployment_options
from reward_serve.cli.file_schema import DeploymentsFile, checked
from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.models import ClassifierModel, CompositeModel, JudgeModel, RemoteModel

FOLDER = Path(__file__).resolve().parents[2] / "deployments"
GATEWAY = "reward_serve.app:build_gateway"


def parsed(name: str) -> DeploymentsFile:
    return checked(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8")))


def options(name: str) -> list[dict[str, Any]]:
    return [deployment_options(model) for model in parsed(name).models]


@pytest.mark.parametrize("name", sorted(file.name for file in FOLDER.glob("*.yaml")))
def test_a_file_serves_this_machine_alone_and_trusts_no_remote_code(name: str) -> None:
    file = parsed(name)
    assert file.content["http_options"]["host"] == file.http.host == "127.0.0.1"
    assert file.models
    engines = [m.engine for m in file.models if isinstance(m, JudgeModel | ClassifierModel)]
    assert not any(engine.trust_remote_code for engine in engines)


@pytest.mark.parametrize(
    ("name", "cpus", "gpus", "replicas"),
    [
        ("judge.yaml", 2.0, 0.0, (1, 4)),
        ("judge-gpu.yaml", 1.0, 1.0, (1, 8)),
        ("classifier.yaml", 1.0, 1.0, (1, 8)),
        ("rule.yaml", 0.5, 0.0, (2, 16)),
        ("openai.yaml", 1.0, 0.0, (1, 1)),
        ("qwen3-thinking.yaml", 1.0, 4.0, (1, 2)),
    ],
)
def test_what_a_files_replicas_ask_for(
    name: str, cpus: float, gpus: float, replicas: tuple[int, int]
) -> None:
    (model,), (found,) = parsed(name).models, options(name)
    assert found["ray_actor_options"] == {"num_cpus": cpus, "num_gpus": gpus}
    assert (model.autoscaling.min_replicas, model.autoscaling.max_replicas) == replicas
    if gpus > 1:  # of one node
        assert found["placement_group_bundles"] == [{"CPU": cpus, "GPU": gpus}]
        assert found["placement_group_strategy"] == "STRICT_PACK"


def test_the_bundled_judge_asks_the_model_only_where_no_rule_decides() -> None:
    (model,) = parsed("judge.yaml").models
    assert isinstance(model, JudgeModel)
    assert (model.engine.model, model.engine.device) == ("bundled", "cpu")
    assert (model.judge.mode, model.judge.rules_first) == ("label", True)


def test_the_thinking_judge_has_room_to_think_and_to_conclude() -> None:
    (model,) = parsed("qwen3-thinking.yaml").models
    assert isinstance(model, JudgeModel)
    assert model.judge.enable_thinking
    assert model.judge.thinking_tokens is not None
    assert model.judge.thinking_tokens < model.judge.max_tokens < model.engine.max_model_len
    assert model.judge.temperature > 0


def test_the_remote_judge_holds_no_key() -> None:
    (model,) = parsed("openai.yaml").models
    assert isinstance(model, RemoteModel)
    assert "sk-" not in (FOLDER / "openai.yaml").read_text(encoding="utf-8")


def test_each_model_of_the_gateway_is_an_application_of_its_own_without_a_port() -> None:
    *models, gateway = parsed("multi.yaml").applications
    assert (gateway.import_path, gateway.route_prefix) == (GATEWAY, "/")
    assert {application.route_prefix for application in models} == {None}
    config = GatewayConfig.parse(gateway.args)
    assert {model.application: [model.name] for model in config.models} == {
        application.name: [model.name for model in AppConfig.parse(application.args).models]
        for application in models
    }
    gpus = [found["ray_actor_options"]["num_gpus"] for found in options("multi.yaml")]
    assert gpus == [0.0, 0.0, 1.0]


def test_the_composite_asks_for_no_gpu_and_little_of_a_core() -> None:
    composite, *members = parsed("composite.yaml").models
    assert isinstance(composite, CompositeModel)
    assert {each.model for each in composite.members} == {each.name for each in members}
    asked = [found["ray_actor_options"] for found in options("composite.yaml")]
    assert sum(each["num_gpus"] for each in asked) == 0
    assert asked[0]["num_cpus"] == 0.5
