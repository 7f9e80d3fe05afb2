"""Builds the Serve applications: ``import_path: reward_serve.app:build_app``.

An application has one deployment for each reward model, with the model's name, and one for HTTP.
``reward_serve.app:build_gateway`` serves the models of several applications over HTTP: Serve
restarts every deployment of an application whose ``args`` change, so models that are added or
replaced independently belong to separate applications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reward_serve.config.app import AppConfig, GatewayConfig, ServerConfig
from reward_serve.config.base import INGRESS_NAME
from reward_serve.config.models import ModelConfig
from reward_serve.config.resolve import resolve
from reward_serve.keys import read_key_digests

if TYPE_CHECKING:
    from ray.serve import Application

# A replica with a failed engine exits by itself; the health check catches one that cannot.
_HEALTH_CHECK_PERIOD_S = 2.0
_HEALTH_CHECK_TIMEOUT_S = 30.0
_GRACEFUL_SHUTDOWN_S = 10.0
_PROBES = 64  # beside keys' requests, and for those that are refused
_GROUP_ROUTER = "reward_serve.routing.router.GroupRouter"


def build_app(args: dict[str, Any]) -> Application:
    """Build the application described by ``args`` of a deployments file.

    Raises:
        ConfigError: ``args`` are invalid or do not fit this machine; the message names the field
            and the remedy.
    """
    from ray import serve

    from reward_serve.replica.deployment import RewardReplica

    config = resolve(AppConfig.parse(args))
    replica = serve.deployment(RewardReplica)
    models = {
        model.name: replica.options(name=model.name, **deployment_options(model)).bind(
            model.model_dump(mode="json"), config.server.explain
        )
        for model in config.models
    }
    return bind_ingress(config.server, models)


def build_gateway(args: dict[str, Any]) -> Application:
    """Build the gateway described by ``args`` of a deployments file; it routes by ``model``.

    The applications may be deployed later or restart. Until they are available, their requests
    wait, and time out at their deadlines.

    Raises:
        ConfigError: ``args`` are invalid; the message names the field and the remedy.
    """
    config = GatewayConfig.parse(args)
    return bind_ingress(config.server, {model.name: model.application for model in config.models})


def bind_ingress(server: ServerConfig, models: Mapping[str, Any]) -> Application:
    """The HTTP deployment of models by name, each a deployment or the name of an application.

    The first is the default.
    """
    from ray import serve

    from reward_serve.http.ingress import Ingress

    keys = read_key_digests(server.api_keys_file, server.api_keys_env)
    ingress = serve.deployment(Ingress).options(
        name=INGRESS_NAME, **ingress_options(server, len(keys))
    )
    return ingress.bind(server.model_dump(mode="json"), models, keys)


def deployment_options(model: ModelConfig) -> dict[str, Any]:
    """Serve's options for a reward model: resources, autoscaling and limits on calls."""
    resources = model.resources
    amounts = ("num_cpus", "num_gpus")
    actor = {name: value for name, value in resources if name in amounts or value}
    options: dict[str, Any] = {
        "ray_actor_options": actor,
        # A call may carry one item. The replica admits more items than these if they are of several
        # keys, and what it rejects must not keep other keys' calls outside.
        "max_ongoing_requests": 4 * ((model.max_concurrent_items or 0) + model.max_queued_items),
        "health_check_period_s": _HEALTH_CHECK_PERIOD_S,
        "health_check_timeout_s": _HEALTH_CHECK_TIMEOUT_S,
        "graceful_shutdown_timeout_s": _GRACEFUL_SHUTDOWN_S,
        # Start-up failures are deterministic: report them without retries.
        "max_constructor_retry_count": 1,
        **_scaling(model),
    }
    if model.affinity and model.autoscaling.max_replicas > 1:
        options["request_router_config"] = {"request_router_class": _GROUP_ROUTER}
    if resources.num_gpus and resources.num_gpus > 1:
        # One bundle keeps the replica's GPUs, one for each vLLM worker, on one node.
        bundle = {"CPU": resources.num_cpus, "GPU": resources.num_gpus}
        if resources.accelerator_type:
            bundle[f"accelerator_type:{resources.accelerator_type}"] = 0.001
        options["placement_group_bundles"] = [bundle]
        options["placement_group_strategy"] = "STRICT_PACK"
    return options


def ingress_options(server: ServerConfig, keys: int = 0) -> dict[str, Any]:
    """Serve's options for the HTTP deployment, which reserves no CPU core and limits each key."""
    limits = keys * server.max_ongoing_requests + _PROBES
    return {
        "num_replicas": server.num_replicas,
        "max_ongoing_requests": limits if keys else server.max_ongoing_requests,
        "ray_actor_options": {"num_cpus": 0},
        "max_constructor_retry_count": 1,
    }


def _scaling(model: ModelConfig) -> dict[str, Any]:
    scaling = model.autoscaling
    if scaling.min_replicas == scaling.max_replicas:
        return {"num_replicas": scaling.max_replicas}
    return {
        "autoscaling_config": {
            **scaling.model_dump(exclude={"target_items"}, exclude_none=True),
            "target_ongoing_requests": scaling.target_items or model.max_concurrent_items,
            "policy": {"policy_function": "reward_serve.replica.admission:replicas_for_items"},
        }
    }
