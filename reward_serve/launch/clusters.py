"""Clusters to serve on: one of this process's own, or one that runs.

Ray reads some settings from the environment of the process that starts it, and a deployments file
cannot say them: ``START_SETTINGS``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml
from rich.console import Console

from reward_serve.config.app import parse_config
from reward_serve.config.models import ModelConfig
from reward_serve.launch.controller import shut_down
from reward_serve.launch.outage import Endpoint, ray_endpoints
from reward_serve.launch.signals import Stopped, signals

START_SETTINGS = {
    # Ray has its workers give way to all else (nice 15), replicas and their engines among them.
    "RAY_worker_niceness": "0",
    # Serve's own HTTP proxy answers 500 where a header that it reads is not UTF-8.
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "reward_serve.http.proxy:middleware",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_OWN_SETTINGS = {"task_events_shutdown_flush_timeout_ms": 500}  # 5,000 delay the end without a GCS
_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS_OF_ENDING = 5


class LaunchError(RuntimeError):
    """What the file describes could not be served; says why."""


@contextmanager
def no_process_left() -> Iterator[None]:
    """End every process that is started within, orphans among them, which become this one's.

    Ray's agents and workers end by themselves once their raylet is gone, late on a busy machine.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _kill_descendants()
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _kill_descendants() -> None:
    for _ in range(_ROUNDS_OF_ENDING):  # the children of one that ends become this one's
        children = psutil.Process().children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=1)


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process is connected to.

    Attributes:
        address: of its GCS, by which others reach it.
        endpoints: what must be there for it to serve.
    """

    address: str
    endpoints: list[Endpoint]

    def is_lost(self) -> bool:
        """Whether one of the endpoints refuses a connection now."""
        return any(endpoint.refuses() for endpoint in self.endpoints)


@contextmanager
def own_cluster(content: dict[str, Any], out: Console) -> Iterator[Cluster]:
    """Serve on a Ray cluster of this process's own, which is gone afterwards."""
    _check_port(content["http_options"])
    set_start_settings()
    import ray

    cluster = None
    try:
        with out.status("starting Ray"):
            cluster = _started()
        _check_room(content)
        serve_run(cluster.address, content)
        yield cluster
    except LaunchError as error:
        node = ray._private.worker.global_worker.node
        logs = Path(node.get_logs_dir_path(), "serve") if node else "/tmp/ray/session_latest/logs"
        raise LaunchError(f"{error}\nlogs: {logs}") from None
    finally:
        signals.ignore()
        if cluster:
            with out.status("ending"):
                shut_down(cluster.is_lost)
            if cluster.is_lost():
                _kill_descendants()  # Ray would wait for each
        ray.shutdown()


@contextmanager
def joined_cluster(address: str, content: dict[str, Any], out: Console) -> Iterator[Cluster]:
    """Serve on a cluster that runs, beside what it serves.

    Afterwards these applications are gone, and Serve, where it did not run before.
    """
    if address.startswith("ray://"):
        raise LaunchError(
            f"--address {address}: Ray Client is not supported; run this on a machine of the "
            "cluster, with --address auto"
        )
    _check_beside(content)
    import ray
    from ray import serve

    try:
        cluster = _connect(address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise LaunchError(f"--address {address}: {error}") from None
    try:
        before = serve.status()
        if taken := sorted(before.applications.keys() & set(application_names(content))):
            raise LaunchError(
                f"--address {address}: this cluster serves an application {taken[0]!r} already; "
                "give yours another `name` and `route_prefix` in a deployments file (--dry-run "
                "prints it)"
            )
        try:
            with out.status("deploying"):
                _deploy_beside(content)
            yield cluster
        finally:
            signals.ignore()
            with out.status("ending"):
                if not cluster.is_lost():
                    _delete(content, had_serve=bool(before.applications or before.proxies))
    finally:
        signals.ignore()
        ray.shutdown()


def _started() -> Cluster:
    try:
        return _connect("local")
    except Exception as error:  # where a process of Ray's is late, no more than that
        raise LaunchError(f"Ray did not start, try again: {error}") from None


def _check_room(content: dict[str, Any]) -> None:
    """Serve would wait for ever for what this machine does not have."""
    import ray

    here = ray.cluster_resources()
    for model in models_of(content):
        asked = {"CPU": model.resources.num_cpus, "GPU": model.resources.num_gpus or 0}
        for what, number in asked.items():
            if number > here.get(what, 0):
                raise LaunchError(
                    f"{model.name}: a replica takes {number:g} {what}, and this machine has "
                    f"{here.get(what, 0):g}; lower --{what.lower()}s or --tp (in a file: "
                    f"resources.num_{what.lower()}s), or join a cluster (--address)"
                )


def _connect(address: str) -> Cluster:
    """Connect to a cluster, or start one ("local")."""
    import ray

    settings = {"_system_config": _OWN_SETTINGS} if address == "local" else {}
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        ray.init(address=address, namespace="serve", **quiet, **settings)
    except SystemExit:  # a handler of SIGTERM that Ray sets
        raise Stopped from None
    signals.listen()
    return Cluster(str(ray.get_runtime_context().gcs_address), ray_endpoints())


def _check_beside(content: dict[str, Any]) -> None:
    """Refuse the fields that ``_deploy_beside`` would ignore."""
    ignored = content.keys() - {"proxy_location", "http_options", "applications"}
    for place, each in enumerate(content["applications"]):
        fields = each.keys() - {"name", "route_prefix", "import_path", "args"}
        ignored |= {f"applications.{place}.{field}" for field in fields}
    if ignored:
        raise LaunchError(
            f"{', '.join(sorted(ignored))}: not supported with --address; remove it, or deploy "
            "the file with Ray's `serve deploy`"
        )


def _deploy_beside(content: dict[str, Any]) -> None:
    """Deploy these applications; ``serve run`` would delete those that its file does not have."""
    import ray
    from ray import serve
    from ray.serve.exceptions import RayServeException

    targets = []
    for each in content["applications"]:
        module, _, function = each["import_path"].partition(":")
        application = getattr(importlib.import_module(module), function)(each.get("args", {}))
        prefix = each.get("route_prefix", "/")
        targets.append(serve.RunTarget(application, each.get("name", "default"), prefix))
    serve.start(content.get("proxy_location"), content["http_options"])
    try:
        serve.run_many(targets, wait_for_applications_running=False)
    except (RayServeException, ray.exceptions.RayTaskError) as error:
        raise LaunchError(str(error)) from None


def _delete(content: dict[str, Any], had_serve: bool) -> None:
    from ray import serve

    there = serve.status().applications
    for name in application_names(content):
        if name in there:
            serve.delete(name)
    if not had_serve and not serve.status().applications:
        serve.shutdown()


def serve_run(address: str, content: dict[str, Any]) -> None:
    """``serve run`` this content on the cluster at ``address``, as an update of what runs there.

    Raises:
        LaunchError: it was refused.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "serve.yaml")
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = [sys.executable, "-m", "ray.serve.scripts", "run"]
        command += ["--non-blocking", "--address", address, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LaunchError(done.stdout + done.stderr)


def set_start_settings() -> None:
    """Set what Ray must be started with, where the environment does not say otherwise."""
    for name, value in START_SETTINGS.items():
        os.environ.setdefault(name, value)


def application_names(content: dict[str, Any]) -> list[str]:
    """Names of the file's applications."""
    return [str(each.get("name", "default")) for each in content["applications"]]


def models_of(content: dict[str, Any]) -> list[ModelConfig]:
    """The reward models of the file's applications."""
    return [
        model
        for each in content["applications"]
        if each["import_path"] == "reward_serve.app:build_app"
        for model in parse_config(each.get("args", {})).models
    ]


def _check_port(http: dict[str, Any]) -> None:
    host, port = http["host"], http.get("port", 8000)
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise LaunchError(f"{host}:{port}: {error.strerror}; choose another --port") from None
