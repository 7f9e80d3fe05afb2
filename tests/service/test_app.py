import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml
from ray.serve.config import AutoscalingConfig
from ray.util.placement_group import _valid_resource_shape

from reward_serve.app import build_app, build_gateway, deployment_options, ingress_options
from reward_serve.config.app import AppConfig
from reward_serve.config.base import ConfigError
from reward_serve.config.models import ModelConfig
from reward_serve.keys import digest_of
from reward_serve.replica.admission import replicas_for_items
from tests.rows import rows

GATEWAY: dict[str, Any] = {
    "models": [{"name": "judge", "application": "a"}, {"name": "rule", "application": "b"}],
    "server": {"num_replicas": 2},
}


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


@pytest.mark.parametrize("size", [2, 4])
def test_tensor_parallelism_takes_its_gpus_in_one_bundle_on_one_node(size: int) -> None:
    options = deployment_options(model(engine={"device": "cuda", "tensor_parallel_size": size}))
    assert options["placement_group_bundles"] == [{"CPU": 1.0, "GPU": size}]
    assert options["placement_group_strategy"] == "STRICT_PACK"
    assert options["ray_actor_options"] == {"num_cpus": 1.0, "num_gpus": size}


@pytest.mark.parametrize(("fields", "num_cpus", "num_gpus"), rows(__file__, "gpus"))
def test_one_gpu_is_of_the_actor(fields: dict[str, Any], num_cpus: float, num_gpus: float) -> None:
    options = deployment_options(model(**fields))
    assert options["ray_actor_options"] == {"num_cpus": num_cpus, "num_gpus": num_gpus}
    assert [option for option in options if option.startswith("placement_group")] == []


def test_a_rule_asks_for_a_core_and_no_gpu() -> None:
    (rule,) = AppConfig.parse({"models": [{"name": "r", "kind": "rule"}]}).models
    assert deployment_options(rule)["ray_actor_options"] == {"num_cpus": 1.0, "num_gpus": 0}


def test_accelerator_and_runtime_environment_reach_the_actor() -> None:
    runtime_env = {"env_vars": {"A": "1"}}
    options = deployment_options(
        model(resources={"num_gpus": 1, "accelerator_type": "H100", "runtime_env": runtime_env})
    )
    assert options["ray_actor_options"]["accelerator_type"] == "H100"
    assert options["ray_actor_options"]["runtime_env"] == runtime_env


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({}, id="any gpu"),
        pytest.param({"accelerator_type": "H100"}, id="one kind of gpu"),
    ],
)
def test_the_actor_fits_into_its_bundle(resources: dict[str, Any]) -> None:
    options = deployment_options(model(engine={"tensor_parallel_size": 2}, resources=resources))
    actor = options["ray_actor_options"]
    needs = {"CPU": actor["num_cpus"], "GPU": actor["num_gpus"]}
    if "accelerator_type" in actor:
        needs[f"accelerator_type:{actor['accelerator_type']}"] = 0.001
    assert _valid_resource_shape(needs, options["placement_group_bundles"])


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"max_concurrent_items": 3, "max_queued_items": 5}, id="small"),
        pytest.param({"engine": {"max_num_seqs": 512}}, id="large engine"),
    ],
)
def test_serve_holds_back_no_call_that_the_replica_has_room_for(fields: dict[str, Any]) -> None:
    config = model(**fields)
    assert config.max_concurrent_items is not None
    items = config.max_concurrent_items + config.max_queued_items
    assert deployment_options(config)["max_ongoing_requests"] >= items


@pytest.mark.parametrize("replicas", [1, 3])
def test_equal_bounds_are_a_fixed_number_of_replicas(replicas: int) -> None:
    options = deployment_options(
        model(autoscaling={"min_replicas": replicas, "max_replicas": replicas})
    )
    assert options["num_replicas"] == replicas
    assert "autoscaling_config" not in options


def test_replicas_follow_items_by_our_policy() -> None:
    options = deployment_options(
        model(
            autoscaling={
                "min_replicas": 0,
                "max_replicas": 8,
                "initial_replicas": 2,
                "upscale_delay_s": 3,
            }
        )
    )
    assert "num_replicas" not in options
    scaling = AutoscalingConfig.model_validate(options["autoscaling_config"])
    assert (scaling.min_replicas, scaling.initial_replicas, scaling.max_replicas) == (0, 2, 8)
    assert scaling.upscale_delay_s == 3
    assert scaling.policy.policy_function == "reward_serve.replica.admission:replicas_for_items"
    policy = scaling.policy.get_policy()
    assert (policy.__module__, policy.__name__) == (
        replicas_for_items.__module__,
        replicas_for_items.__name__,
    )


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        pytest.param({"max_concurrent_items": 40}, 40, id="what a replica works on at once"),
        pytest.param(
            {"max_concurrent_items": 40, "autoscaling": {"target_items": 7.5}}, 7.5, id="said"
        ),
    ],
)
def test_the_items_a_replica_should_have(fields: dict[str, Any], target: float) -> None:
    scaling = {"min_replicas": 1, "max_replicas": 4, **fields.pop("autoscaling", {})}
    options = deployment_options(model(autoscaling=scaling, **fields))
    config = AutoscalingConfig.model_validate(options["autoscaling_config"])
    assert config.target_ongoing_requests == target


def test_the_ingress_takes_no_core_and_its_own_bound_of_calls() -> None:
    server = {"num_replicas": 2, "max_ongoing_requests": 77}
    options = ingress_options(AppConfig.parse({**args(), "server": server}).server)
    assert options["ray_actor_options"] == {"num_cpus": 0}
    assert (options["num_replicas"], options["max_ongoing_requests"]) == (2, 77)


def test_deployments_bear_their_models_names() -> None:
    models = [
        {"name": "judge", "kind": "judge", "engine": {"tensor_parallel_size": 2}},
        {"name": "rule", "kind": "rule", "autoscaling": {"max_replicas": 3}},
    ]
    bound = deployments({"models": models})
    assert list(bound) == ["ingress", "judge", "rule"]
    replica = bound["judge"]._replica_config
    assert replica.placement_group_bundles == [{"CPU": 1.0, "GPU": 2.0}]
    assert replica.placement_group_strategy == "STRICT_PACK"
    assert bound["rule"]._deployment_config.autoscaling_config.max_replicas == 3


def test_a_replica_receives_its_model_and_whether_it_explains() -> None:
    config = {**args(), "server": {"explain": False}}
    bound = deployments(config)
    expected = AppConfig.parse(config)
    assert bound["judge"].init_args == (expected.models[0].model_dump(mode="json"), False)
    assert bound["ingress"].init_args[0] == expected.server.model_dump(mode="json")


def test_a_replica_receives_the_content_of_its_template_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes((files("reward_serve.templates") / "solution.yaml").read_bytes())
    bound = deployments(args(judge={"template": str(file)}))
    judge = bound["judge"].init_args[0]["judge"]
    assert judge["template_data"] == yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("config", "field"), rows(__file__, "bad_files"))
def test_a_bad_file_fails_before_anything_is_deployed(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        build_app(config)
    assert not ray.is_initialized()


def test_infinite_cores_are_an_error_of_the_file() -> None:
    with pytest.raises(ConfigError, match="num_cpus"):
        build_app(args(resources={"num_cpus": math.inf}))


def test_the_ingress_has_digests_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_keys_that_cannot_be_read_fail_before_anything_is_deployed(tmp_path: Path) -> None:
    server = {"api_keys_file": str(tmp_path / "none")}
    with pytest.raises(ConfigError, match=r"server\.api_keys_file: .*No such file"):
        build_app({**args(), "server": server})
    assert not ray.is_initialized()


def test_a_gateway_is_an_ingress_that_knows_each_models_application() -> None:
    bound = build_gateway(GATEWAY)._bound_deployment
    assert bound.name == "ingress"
    assert bound.init_args[1] == {"judge": "a", "rule": "b"}
    assert bound.num_replicas == 2


def test_a_bad_gateways_file_fails_before_anything_is_deployed() -> None:
    with pytest.raises(ConfigError, match=r"models\.0\.application"):
        build_gateway({"models": [{"name": "judge"}]})
