from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.util.placement_group import _valid_resource_shape

from reward_serve.app import build_app, build_gateway, deployment_options
from reward_serve.config.app import AppConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.models import ModelConfig
from reward_serve.keys import digest_of
from reward_serve.replica.admission import replicas_for_items

PLACE = {"accelerator_type": "H100", "runtime_env": {"env_vars": {"A": "1"}}}


def args(**fields: Any) -> dict[str, Any]:
    return {"models": [{"name": "judge", "kind": "judge", **fields}]}


def model(**fields: Any) -> ModelConfig:
    return AppConfig.parse(args(**fields)).models[0]


def deployments(config: dict[str, Any]) -> dict[str, Any]:
    """Name to deployment, as bound; nothing is deployed."""
    ingress = build_app(config)._bound_deployment
    bound = {ingress.name: ingress}
    for name, application in ingress.init_args[1].items():
        assert application._bound_deployment.name == name
        bound[name] = application._bound_deployment
    assert not ray.is_initialized()
    return bound


@pytest.mark.parametrize(
    ("fields", "actor"),
    [
        pytest.param({"kind": "rule"}, {"num_cpus": 1.0, "num_gpus": 0}, id="a rule"),
        pytest.param({}, {"num_cpus": 2.0, "num_gpus": 0.0}, id="cpu"),
        pytest.param({"engine": {"device": "cuda"}}, {"num_cpus": 1.0, "num_gpus": 1.0}, id="gpu"),
        pytest.param(
            {"resources": {"num_cpus": 3, "num_gpus": 0.1, **PLACE}},
            {"num_cpus": 3.0, "num_gpus": 0.1, **PLACE},
            id="a share",
        ),
    ],
)
def test_up_to_one_gpu_is_asked_of_the_actor_alone(
    fields: dict[str, Any], actor: dict[str, Any]
) -> None:
    options = deployment_options(model(**fields))
    assert options["ray_actor_options"] == actor
    assert [option for option in options if option.startswith("placement_group")] == []


@pytest.mark.parametrize("resources", [{}, {"accelerator_type": "H100"}])
def test_tensor_parallelism_takes_its_gpus_in_one_bundle_on_one_node(
    resources: dict[str, Any],
) -> None:
    engine = {"device": "cuda", "tensor_parallel_size": 4}
    options = deployment_options(model(engine=engine, resources=resources))
    actor = options["ray_actor_options"]
    assert (actor["num_cpus"], actor["num_gpus"]) == (1.0, 4)
    assert options["placement_group_strategy"] == "STRICT_PACK"
    needs = {"CPU": actor["num_cpus"], "GPU": actor["num_gpus"]}
    if "accelerator_type" in actor:
        needs[f"accelerator_type:{actor['accelerator_type']}"] = 0.001
    assert _valid_resource_shape(needs, options["placement_group_bundles"])


def test_serve_never_holds_back_calls_that_the_replica_has_room_for() -> None:
    options = deployment_options(model(max_concurrent_items=3, max_queued_items=5))
    assert options["max_ongoing_requests"] >= 8
    assert deployment_options(model(engine={"max_num_seqs": 512}))["max_ongoing_requests"] >= 512


@pytest.mark.parametrize(("said", "target"), [({}, 40), ({"target_items": 7.5}, 7.5)])
def test_replicas_follow_items_by_our_policy(said: dict[str, Any], target: float) -> None:
    bounds = {"min_replicas": 0, "max_replicas": 8, "initial_replicas": 2, "upscale_delay_s": 3}
    options = deployment_options(model(autoscaling={**bounds, **said}, max_concurrent_items=40))
    assert "num_replicas" not in options
    scaling = AutoscalingConfig.model_validate(options["autoscaling_config"])
    assert {name: getattr(scaling, name) for name in bounds} == bounds
    assert scaling.target_ongoing_requests == target
    assert scaling.policy.get_policy().__name__ == replicas_for_items.__name__
    fixed = deployment_options(model(autoscaling={"min_replicas": 3, "max_replicas": 3}))
    assert (fixed["num_replicas"], "autoscaling_config" in fixed) == (3, False)


@pytest.mark.parametrize(
    ("most", "affinity", "routed"), [(1, True, False), (4, True, True), (4, False, False)]
)
def test_deployments_of_several_replicas_have_the_router(
    most: int, affinity: bool, routed: bool
) -> None:
    options = deployment_options(model(autoscaling={"max_replicas": most}, affinity=affinity))
    config = RequestRouterConfig(**options.get("request_router_config", {}))
    assert (config.get_request_router_class().__name__ == "GroupRouter") is routed


def test_deployments_bear_their_models_names_and_receive_their_settings(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes((files("reward_serve.templates") / "solution.yaml").read_bytes())
    judge = {"name": "judge", "kind": "judge", "engine": {"tensor_parallel_size": 2}}
    rule = {"name": "rule", "kind": "rule", "autoscaling": {"max_replicas": 3}}
    config = {
        "models": [{**judge, "judge": {"template": str(file)}}, rule],
        "server": {"max_batch_items": 9, "num_replicas": 2, "max_ongoing_requests": 77},
    }
    bound = deployments(config)
    assert list(bound) == ["ingress", "judge", "rule"]
    assert bound["ingress"].ray_actor_options["num_cpus"] == 0
    assert (bound["ingress"].num_replicas, bound["ingress"].max_ongoing_requests) == (2, 77)
    assert bound["judge"]._replica_config.placement_group_bundles == [{"CPU": 1.0, "GPU": 2.0}]
    assert bound["rule"]._deployment_config.autoscaling_config.max_replicas == 3
    expected = AppConfig.parse(config)
    assert bound["rule"].init_args == (expected.models[1].model_dump(mode="json"), 9, True)
    assert bound["ingress"].init_args[0] == expected.server.model_dump(mode="json")
    template = bound["judge"].init_args[0]["judge"]["template_data"]
    assert template == yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        pytest.param(args(engine={"max_model_length": 1}), "max_model_length", id="unknown"),
        pytest.param(args(engine={"device": "cpu"}, resources={"num_gpus": 1}), "num_gpus", id="c"),
        pytest.param({"models": [{"name": "ingress", "kind": "rule"}]}, "ingress", id="name"),
        pytest.param(
            {**args(), "server": {"api_keys_file": "/nowhere"}}, "api_keys_file.*No such", id="keys"
        ),
    ],
)
def test_a_bad_file_fails_before_anything_is_deployed(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        build_app(config)
    assert not ray.is_initialized()


def test_the_ingress_is_bound_to_digests_and_never_to_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.touch(mode=0o600)
    file.write_text("one: key-number-one-0123\n", encoding="utf-8")
    monkeypatch.setenv("THE_KEYS", "two=key-number-two-0123")
    server = {"api_keys_file": str(file), "api_keys_env": "THE_KEYS"}
    ingress = deployments({**args(), "server": server})["ingress"]
    assert ingress.init_args[2] == {
        "one": digest_of("key-number-one-0123"),
        "two": digest_of("key-number-two-0123"),
    }
    assert "key-number" not in repr(ingress.init_args)


def test_a_gateway_is_an_ingress_that_knows_each_models_application() -> None:
    models = [{"name": "judge", "application": "a"}, {"name": "rule", "application": "b"}]
    bound = build_gateway({"models": models, "server": {"num_replicas": 2}})._bound_deployment
    assert (bound.name, bound.num_replicas) == ("ingress", 2)
    assert bound.init_args[1] == {"judge": "a", "rule": "b"}
    with pytest.raises(ConfigError, match=r"models\.0\.application"):
        build_gateway({"models": [{"name": "judge"}]})
