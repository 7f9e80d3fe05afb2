"""Ray clusters to serve on: one that this process starts, or a running one.

Ray reads ``START_SETTINGS`` from the environment of the process that starts it; a deployments file
cannot set them.
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
from typing import TYPE_CHECKING, Any

import psutil
import yaml
from rich.console import Console

from reward_serve.cli.controller import shut_down
from reward_serve.cli.outage import Endpoint, ray_endpoints
from reward_serve.cli.signals import Stopped, signals
from reward_serve.config.models import ModelConfig

if TYPE_CHECKING:
    from reward_serve.cli.file_schema import DeploymentsFile

START_SETTINGS = {
    # By default Ray runs its workers, and so replicas and engines, at nice 15.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_SYSTEM_CONFIG = {"task_events_shutdown_flush_timeout_ms": 500}  # 5,000 delays exit without a GCS
_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUNDS = 5
_STARTS = 3  # Ray gives its processes 30 s, which a busy machine exceeds


class LaunchError(RuntimeError):
    """Deployment failed, or Ray or Serve is gone; the message has the cause."""


@contextmanager
def no_process_left() -> Iterator[None]:
    """Kill all descendants at the end of the block, including orphans.

    This process becomes the parent of orphans by prctl(2). Without it, SIGTERM to the process group
    takes 8 s instead of 3 s, since ``ray.shutdown`` waits for workers whose raylet is gone.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _kill_descendants()
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _kill_descendants() -> None:
    for _ in range(_KILL_ROUNDS):  # this process inherits the children of those it kills
        children = psutil.Process().children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=1)


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process is connected to.

    Attributes:
        address: address of its GCS, for other processes to connect to.
        endpoints: ports that must accept connections while it serves.
        logs: this machine's folder of Serve's logs.
    """

    address: str
    endpoints: list[Endpoint]
    logs: Path

    def is_lost(self) -> bool:
        """Whether any endpoint refuses connections now."""
        return any(endpoint.refuses() for endpoint in self.endpoints)


@contextmanager
def own_cluster(file: DeploymentsFile, out: Console) -> Iterator[Cluster]:
    """Deploy on a new Ray cluster, which is shut down after the block."""
    _check_port(file.http.host, file.http.port)
    set_start_settings()
    import ray

    cluster = None
    try:
        with out.status("starting Ray"):
            cluster = _connect("local")
        _check_room(file.models)
        serve_run(cluster.address, file.content)
        yield cluster
    except LaunchError as error:
        logs = cluster.logs if cluster else "/tmp/ray/session_latest/logs"
        raise LaunchError(f"{error}\nlogs: {logs}") from None
    finally:
        signals.ignore()
        if cluster:
            with out.status("shutting down"):
                shut_down(cluster.is_lost)
            if cluster.is_lost():
                _kill_descendants()  # ray.shutdown would wait for each
        ray.shutdown()


@contextmanager
def joined_cluster(address: str, file: DeploymentsFile, out: Console) -> Iterator[Cluster]:
    """Deploy on a running cluster, beside its other applications.

    After the block these applications are deleted. Serve is shut down if it was not running before.
    """
    if address.startswith("ray://"):
        raise LaunchError(
            f"--address {address}: Ray Client is not supported; run this on a machine of the "
            "cluster, with --address auto"
        )
    _check_beside(file.content)
    import ray
    from ray import serve

    cluster = _connect(address)
    try:
        before = serve.status()
        if taken := sorted(before.applications.keys() & set(file.names)):
            raise LaunchError(
                f"--address {address}: this cluster already has an application {taken[0]!r}; "
                "give yours another `name` and `route_prefix` in a deployments file (--dry-run "
                "prints it)"
            )
        try:
            with out.status("deploying"):
                _deploy_beside(file)
            yield cluster
        finally:
            signals.ignore()
            with out.status("shutting down"):
                if not cluster.is_lost():
                    _delete(file.names, had_serve=bool(before.applications or before.proxies))
    finally:
        signals.ignore()
        ray.shutdown()


def _check_room(models: list[ModelConfig]) -> None:
    """Refuse models that need more than this machine has; Serve would wait forever."""
    import ray

    available = ray.cluster_resources()
    for what, field in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
        room, in_all = available.get(what, 0), 0.0
        for model in models:
            number = getattr(model.resources, field) or 0
            if number > room:
                raise LaunchError(
                    f"{model.name}: a replica needs {number:g} {what}, but this machine has "
                    f"{room:g}; lower --{what.lower()}s or --tp (in a file: resources.{field}), "
                    "or join a cluster (--address)"
                )
            in_all += number * model.autoscaling.min_replicas
        if round(in_all, 4) > room:
            raise LaunchError(
                f"the models need {in_all:g} {what} together, but this machine has {room:g}; "
                f"lower resources.{field} or autoscaling.min_replicas of some, or join a cluster "
                "(--address)"
            )


def _connect(address: str) -> Cluster:
    """Connect to the cluster at ``address``; ``local`` starts one.

    Raises:
        LaunchError: Ray did not start, or there is no such cluster.
    """
    import ray

    own = {"_system_config": _SYSTEM_CONFIG, "include_dashboard": False}
    settings = own if address == "local" else {}
    quiet = {"log_to_driver": False, "logging_level": "error"}
    for starts_left in reversed(range(_STARTS if address == "local" else 1)):
        try:
            context = ray.init(address=address, namespace="serve", **quiet, **settings)
            signals.listen()
            logs = Path(context.address_info["session_dir"], "logs", "serve")
            return Cluster(str(ray.get_runtime_context().gcs_address), ray_endpoints(), logs)
        except SystemExit:  # raised by Ray's SIGTERM handler
            raise Stopped from None
        except Exception as error:  # Ray's own type, if one of its processes starts too slowly
            failed = (
                "Ray did not start; try again" if address == "local" else f"--address {address}"
            )
            if not starts_left:
                raise LaunchError(f"{failed}: {error}") from None
            ray.shutdown()
            _kill_descendants()
    raise AssertionError("unreachable")


def _check_beside(content: dict[str, Any]) -> None:
    """Refuse fields that ``_deploy_beside`` would ignore."""
    ignored = content.keys() - {"proxy_location", "http_options", "applications"}
    for place, each in enumerate(content["applications"]):
        fields = each.keys() - {"name", "route_prefix", "import_path", "args"}
        ignored |= {f"applications.{place}.{field}" for field in fields}
    if ignored:
        raise LaunchError(
            f"{', '.join(sorted(ignored))}: not supported with --address; remove it, or deploy "
            "the file with Ray's `serve deploy`"
        )


def _deploy_beside(file: DeploymentsFile) -> None:
    """Deploy these applications; ``serve run`` would delete all others."""
    import ray
    from ray import serve
    from ray.serve.exceptions import RayServeException

    targets = []
    for each in file.applications:
        module, _, function = each.import_path.partition(":")
        application = getattr(importlib.import_module(module), function)(each.args)
        targets.append(serve.RunTarget(application, each.name, each.route_prefix))
    serve.start(file.content.get("proxy_location"), file.content["http_options"])
    try:
        serve.run_many(targets, wait_for_applications_running=False)
    except (RayServeException, ray.exceptions.RayTaskError) as error:
        raise LaunchError(str(error)) from None


def _delete(names: list[str], had_serve: bool) -> None:
    from ray import serve

    there = serve.status().applications
    for name in names:
        if name in there:
            serve.delete(name)
    if not had_serve and not serve.status().applications:
        serve.shutdown()


def serve_run(address: str, content: dict[str, Any]) -> None:
    """``serve run`` the content on the cluster at ``address``, as an update if Serve runs there.

    Raises:
        LaunchError: ``serve run`` failed; the message has its output.
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
    """Set ``START_SETTINGS`` in the environment, except those already set."""
    for name, value in START_SETTINGS.items():
        os.environ.setdefault(name, value)


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            pass
    except OSError as error:
        raise LaunchError(f"{host}:{port}: {error.strerror}; choose another --port") from None
