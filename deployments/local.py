"""Deploys ``deployments/judge.yaml`` on a local Ray cluster owned by this process."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from reward_serve import HttpRewardClient
from reward_serve.cli import launch
from reward_serve.cli.console import prepare_with_progress

ROOT = Path(__file__).resolve().parents[1]
APP = "reward"
READY_TIMEOUT_S = 300.0

console = Console()


@dataclass(frozen=True)
class Service:
    """A running service.

    Attributes:
        url: base URL.
        ray_s: seconds that Ray took to start.
        ready_s: seconds until the first replica could score, including Ray's start.
    """

    url: str
    ray_s: float
    ready_s: float


@contextmanager
def deployed(rules_first: bool = True, cache: bool = True, **fields: Any) -> Iterator[Service]:
    """Deploy the bundled judge on a new cluster; shut both down after the block.

    Args:
        rules_first: whether rules decide before the model.
        cache: whether the judge's cache is on.
        **fields: fields that replace those of the model in judge.yaml; those of ``judge`` replace
            that section's.

    Raises:
        SystemExit: deployment failed; Serve's message was printed.
    """
    prepare_with_progress(console)
    import ray
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.WARNING)  # its router logs every replica
    began = time.monotonic()
    launch.set_start_settings()
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="error")
    ray_s = time.monotonic() - began
    try:
        url = deploy(ray.get_runtime_context().gcs_address, rules_first, cache, **fields)
        with HttpRewardClient(url) as client:
            wait_until_ready(client)
        yield Service(url, ray_s, time.monotonic() - began)
    finally:
        serve.shutdown()
        ray.shutdown()


def deploy(address: str, rules_first: bool, cache: bool = True, **fields: Any) -> str:
    """``serve run`` judge.yaml on the cluster at ``address``, on a free port; returns the URL."""
    config = yaml.safe_load((ROOT / "deployments" / "judge.yaml").read_text(encoding="utf-8"))
    port = free_port()
    config["http_options"]["port"] = port
    judge = config["applications"][0]["args"]["models"][0]
    # Load tests compare every answer, so the judge abstains only where a program asks for it.
    judge["judge"] |= {
        "rules_first": rules_first,
        "min_probability": 0.0,
        **fields.pop("judge", {}),
    }
    judge |= {"cache": {"enabled": cache}, **fields}
    serve_run(address, config)
    return f"http://127.0.0.1:{port}"


def serve_run(address: str, config: dict[str, Any]) -> None:
    """``serve run`` a config on the cluster at ``address``, as an update if Serve runs there.

    Raises:
        SystemExit: ``serve run`` failed; its output was printed.
    """
    with _failures_shown(), console.status("serve run"):
        launch.serve_run(address, config)


def wait_until_ready(client: HttpRewardClient) -> None:
    """Show the application's status until it can score.

    Raises:
        SystemExit: the application failed or timed out; Serve's message was printed.
    """
    with _failures_shown():
        launch.wait_until(client.is_ready, console, [APP], timeout_s=READY_TIMEOUT_S)


@contextmanager
def _failures_shown() -> Iterator[None]:
    try:
        yield
    except launch.LaunchError as error:
        console.print(str(error), style="red", markup=False)
        raise SystemExit(1) from None


def free_port() -> int:
    """A free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
