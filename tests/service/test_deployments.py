from pathlib import Path

import pytest
import yaml

from reward_serve.cli.file_schema import DeploymentsFile, checked
from reward_serve.config.app import AppConfig, GatewayConfig
from reward_serve.config.models import ClassifierModel, JudgeModel

FOLDER = Path(__file__).resolve().parents[2] / "deployments"
GATEWAY = "reward_serve.app:build_gateway"


def parsed(name: str) -> DeploymentsFile:
    return checked(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(file.name for file in FOLDER.glob("*.yaml")))
def test_a_file_serves_this_machine_alone_and_trusts_no_remote_code(name: str) -> None:
    file = parsed(name)
    assert file.content["http_options"]["host"] == file.http_options.host == "127.0.0.1"
    assert file.models
    engines = [m.engine for m in file.models if isinstance(m, JudgeModel | ClassifierModel)]
    assert not any(engine.trust_remote_code for engine in engines)


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


def test_each_model_of_the_gateway_is_an_application_of_its_own_without_a_port() -> None:
    *models, gateway = parsed("multi.yaml").applications
    assert (gateway.import_path, gateway.route_prefix) == (GATEWAY, "/")
    assert {application.route_prefix for application in models} == {None}
    config = GatewayConfig.parse(gateway.args)
    assert {model.application: [model.name] for model in config.models} == {
        application.name: [model.name for model in AppConfig.parse(application.args).models]
        for application in models
    }
