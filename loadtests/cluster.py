"""Local Ray clusters, and applications deployed on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from deployments.local import APP, free_port, serve_run, wait_until_ready
from reward_serve.client import HttpRewardClient
from reward_serve.config.app import ServerConfig


@contextmanager
def local_cluster(**arguments: Any) -> Iterator[str]:
    """Start a Ray cluster and yield its address; shut it and its applications down afterwards."""
    import ray
    from ray import serve

    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        **arguments,
    )
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        serve.shutdown()
        ray.shutdown()


@contextmanager
def replica_served(
    name: str, replica: type, *arguments: Any, app: str = APP, **options: Any
) -> Iterator[tuple[str, str]]:
    """Another replica behind the service's own ingress, on a new cluster: its address and URL.

    Args:
        name: the model's name.
        replica: the class of the replica.
        arguments: what it is made with.
        app: the application's name.
        options: of its Serve deployment.
    """
    from ray import serve

    from reward_serve.http.ingress import Ingress

    port = free_port()
    idle = {"max_ongoing_requests": 10_000, "ray_actor_options": {"num_cpus": 0}}
    with local_cluster() as address:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        model = serve.deployment(replica).options(name=name, **idle, **options).bind(*arguments)
        ingress = serve.deployment(Ingress).options(name="ingress", **idle)
        server = ServerConfig().model_dump(mode="json")
        serve.run(ingress.bind(server, {name: model}, {}), name=app, route_prefix="/")
        yield address, f"http://127.0.0.1:{port}"


def config(
    port: int, models: list[dict[str, Any]], server: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The content of a deployments file with one application."""
    return {
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [
            {
                "name": APP,
                "route_prefix": "/",
                "import_path": "reward_serve.app:build_app",
                "args": {"models": models, "server": dict(server or {})},
            }
        ],
    }


@contextmanager
def served(models: list[dict[str, Any]], server: Any = None, **arguments: Any) -> Iterator[str]:
    """An application of these models, ready, on a cluster of this process's own; its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with local_cluster(**arguments) as address:
        serve_run(address, config(port, models, server))
        await_ready(url)
        yield url


def await_ready(url: str) -> None:
    """Wait until every model of the application can score."""
    with HttpRewardClient(url) as client:
        wait_until_ready(client)
