"""Deploys a deployments file on a new or a running Ray cluster, and stops what it started.

Ray reads ``START_SETTINGS`` from the environment of the process that starts it; a deployments file
cannot set them.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console

from reward_serve.cli.console import PLAIN
from reward_serve.client import HttpRewardClient
from reward_serve.config.models import ModelConfig

if TYPE_CHECKING:
    from reward_serve.cli.file_schema import DeploymentsFile

START_SETTINGS = {
    # By default Ray runs its workers, and so replicas and engines, at nice 15.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_POLL_S = 0.5
_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?:\([\w.]*\))?:")


class LaunchError(RuntimeError):
    """Deployment failed; the message has the cause."""


class Stopped(BaseException):
    """SIGINT or SIGTERM was received."""


@dataclass(frozen=True)
class State:
    """An application's state in Serve.

    Attributes:
        name: Serve's status, or ``ABSENT``.
        message: Serve's messages.
        is_usable: whether every deployment has a running replica or needs none.
    """

    name: str
    message: str
    is_usable: bool


@contextmanager
def until_stopped(out: Console) -> Iterator[None]:
    """Run the block; SIGINT or SIGTERM ends it without an error, a second one at once."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        _listen()
        yield
    except Stopped:
        out.print("stopped", highlight=False)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen() -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise Stopped

    for number in _SIGNALS:
        signal.signal(number, stop)


def serve_until_stopped(file: DeploymentsFile, address: str | None, out: Console) -> None:
    """Serve a deployments file until a signal, then stop what this started.

    It does not watch Ray or Serve: a supervisor that must know asks ``/ready``. Call this within
    ``until_stopped``.

    Args:
        file: the deployments file.
        address: address of a running Ray cluster, which keeps running; None starts a cluster.
        out: console for progress and the addresses for trainers.

    Raises:
        LaunchError: deployment failed.
        ConfigError: an application's ``args`` are invalid.
    """
    began = time.monotonic()
    with _deployed(file, address, out) as gcs, ExitStack() as stack:
        clients = {url: stack.enter_context(HttpRewardClient(url)) for url in file.urls}

        def is_usable(found: dict[str, State]) -> bool:
            # A running cluster may serve HTTP on other machines or another port.
            reached = address is not None or all(each.is_ready() for each in clients.values())
            return reached and all(state.is_usable for state in found.values())

        wait_until(is_usable, out, file.names)
        reached = [url for url, client in clients.items() if client.is_ready()]
        _print_addresses(file, reached, gcs, time.monotonic() - began, out)
        while True:
            signal.pause()


def wait_until(
    is_done: Callable[[dict[str, State]], bool],
    out: Console,
    names: Iterable[str],
    timeout_s: float = float("inf"),
) -> None:
    """Show the applications' status until ``is_done``, which gets their states by name.

    Raises:
        LaunchError: an application failed, or ``timeout_s`` passed.
    """
    began, shown = time.monotonic(), ""
    with out.status("deploying") as status:
        while True:
            found = states(names)
            elapsed = time.monotonic() - began
            progress = "; ".join(f"{name}: {state.name.lower()}" for name, state in found.items())
            status.update(f"{progress} ({elapsed:.0f} s)")
            if progress != shown and not out.is_terminal:
                out.print(progress, **PLAIN)
            shown = progress
            for name, state in found.items():
                if state.name in _FAILED or elapsed > timeout_s:
                    what = f"{name}: {state.name.lower()} after {elapsed:.0f} s"
                    raise LaunchError(f"{what}: {cause(state.message)}")
            if is_done(found):
                return
            time.sleep(_POLL_S)


def states(names: Iterable[str]) -> dict[str, State]:
    """The state of each application."""
    from ray import serve

    applications = serve.status().applications
    return {name: _state(applications.get(name)) for name in names}


def _state(application: Any) -> State:
    if application is None:
        return State("ABSENT", "", False)
    each = application.deployments.values()
    message = "; ".join(filter(None, (application.message, *(one.message for one in each))))
    name, counts = str(application.status.value), [one.replica_states for one in each]
    wanted = (sum(n for state, n in one.items() if state != "STOPPING") for one in counts)
    started = bool(counts) and all(
        one.get("RUNNING") or not number for one, number in zip(counts, wanted, strict=True)
    )
    return State(name, message, name == "RUNNING" or (name not in _FAILED and started))


def cause(message: str) -> str:
    """The error at the end of Serve's message, without the tracebacks."""
    lines = _COLOUR.sub("", message).strip().splitlines()
    if not any("Traceback (most recent call last)" in line for line in lines):
        return "\n".join(lines)
    places = [place for place, line in enumerate(lines) if _EXCEPTION.match(line)]
    return "\n".join(lines[places[-1] :] if places else lines[-1:])


@contextmanager
def _deployed(file: DeploymentsFile, address: str | None, out: Console) -> Iterator[str]:
    """Deploy on a new Ray cluster, or beside a running one's applications; the GCS's address.

    After the block the applications are deleted, and what this started is shut down: Ray, Serve.
    """
    if address is None:
        _check_port(file.http.host, file.http.port)
        set_start_settings()
    else:
        _check_beside(address, file.content)
    import ray
    from ray import serve

    logs = "/tmp/ray/session_latest/logs"
    deployed, had_serve = set[str](), True
    try:
        with out.status("starting Ray" if address is None else "connecting"):
            gcs, logs = _connect(address)
        before = serve.status()
        if taken := sorted(before.applications.keys() & set(file.names)):
            raise LaunchError(
                f"--address {address}: this cluster already has an application {taken[0]!r}; "
                "give yours another `name` and `route_prefix` in a deployments file (--dry-run "
                "prints it)"
            )
        deployed, had_serve = set(file.names), bool(before.applications or before.proxies)
        with out.status("deploying"):
            if address is None:
                _check_room(file.models)
                serve_run(gcs, file.content)
            else:
                _deploy_beside(file)
        yield gcs
    except LaunchError as error:
        raise LaunchError(f"{error}\nlogs: {logs}") from None
    finally:
        with out.status("shutting down"):
            if ray.is_initialized() and deployed:
                _delete(deployed, had_serve)
            ray.shutdown()


def _connect(address: str | None) -> tuple[str, str]:
    """Connect to the cluster at ``address``, or start one.

    Returns:
        The address of its GCS, and this machine's folder of Serve's logs.

    Raises:
        LaunchError: Ray did not start, or there is no such cluster.
    """
    import ray

    own = {"include_dashboard": False} if address is None else {}
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        context = ray.init(address=address or "local", namespace="serve", **quiet, **own)
    except SystemExit:  # raised by Ray's SIGTERM handler
        raise Stopped from None
    except Exception as error:  # Ray's own type, if one of its processes starts too slowly
        failed = f"--address {address}" if address else "Ray did not start; try again"
        raise LaunchError(f"{failed}: {error}") from None
    _listen()  # Ray has its own handlers
    logs = Path(context.address_info["session_dir"], "logs", "serve")
    return str(ray.get_runtime_context().gcs_address), str(logs)


def _check_room(models: list[ModelConfig]) -> None:
    """Refuse models that need more than this machine has; Serve would wait forever."""
    import ray

    available = ray.cluster_resources()
    for what, field in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
        each = [
            (getattr(one.resources, field) or 0, one.autoscaling.min_replicas) for one in models
        ]
        needed = max(
            sum(number * least for number, least in each), *(number for number, _ in each), 0
        )
        if round(needed, 4) > (room := available.get(what, 0)):
            raise LaunchError(
                f"{', '.join(model.name for model in models)}: need {needed:g} {what}, but this "
                f"machine has {room:g}; lower --gpus, --tp or --replicas (in a file: "
                f"resources.{field}, autoscaling.min_replicas), or join a cluster (--address)"
            )


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family):
            pass
    except OSError as error:
        raise LaunchError(f"{host}:{port}: {error.strerror}; choose another --port") from None


def _check_beside(address: str, content: dict[str, Any]) -> None:
    """Refuse Ray Client, and fields that ``_deploy_beside`` would ignore."""
    if address.startswith("ray://"):
        raise LaunchError(
            f"--address {address}: Ray Client is not supported; run this on a machine of the "
            "cluster, with --address auto"
        )
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


def _delete(names: set[str], had_serve: bool) -> None:
    """Delete the applications; shut Serve down if it did not run before and has no others."""
    from ray import serve

    there = serve.status().applications.keys()
    if not had_serve and there <= names:
        serve.shutdown()
        return
    for name in there & names:
        serve.delete(name)


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


def _print_addresses(
    file: DeploymentsFile, reached: list[str], gcs: str, took_s: float, out: Console
) -> None:
    """Print the addresses for trainers and the workbench; ``reached`` are URLs that answered."""
    import ray

    lines = [f"ready after {took_s:.0f} s; press Ctrl-C to stop"]
    if file.is_on_every_interface:
        node = ray.util.get_node_ip_address()
        reached = reached + [url.replace("127.0.0.1", node, 1) for url in reached]
    lines += [f"REWARD_SERVE_URL={url}" for url in reached]
    if not reached and file.urls:
        lines.append("HTTP: on the machines and port where this cluster's Serve listens")
    lines += [f"REWARD_SERVE_APP={name} RAY_ADDRESS={gcs}" for name in file.names]
    metrics = next(
        f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        for node in ray.nodes()
        if node["NodeID"] == ray.get_runtime_context().get_node_id()
    )
    folders = {model.verdict_log.folder for model in file.models} - {None}
    log = "".join(f" --log {shlex.quote(str(folder))}" for folder in sorted(folders, key=str)[:1])
    lines.append(f"metrics of this node: {metrics}")
    if reached:
        lines.append(f"reward-serve ui --url {reached[0]} --metrics {metrics}{log}")
    for line in lines:
        out.print(line, **PLAIN)
