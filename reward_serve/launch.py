"""Serves a deployments file until a signal: on a Ray cluster of its own, or on one that runs.

Ray reads some settings from the environment of the process that starts it, and the file cannot
say them: ``START_SETTINGS``.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from reward_serve.client.http import HttpRewardClient
from reward_serve.signals import Stopped, signals

START_SETTINGS = {
    # Ray has its workers give way to all else (nice 15), replicas and their engines among them.
    "RAY_worker_niceness": "0",
    # Serve's own HTTP proxy answers 500 where a header that it reads is not UTF-8.
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "reward_serve.http.proxy:middleware",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_EVERY_INTERFACE = ("0.0.0.0", "::")
_POLL_S = 0.5


class LaunchError(RuntimeError):
    """What the file describes could not be served; says why."""


def serve_until_stopped(content: dict[str, Any], address: str | None, out: Console) -> None:
    """Serve a deployments file's content, say where, and end all of it when ``Stopped`` is raised.

    Within ``until_stopped``.

    Args:
        content: of the file.
        address: of a Ray cluster that runs, where only what is deployed here is ended; None for a
            cluster of this process's own.
        out: where progress is shown. The addresses for trainers go there, too.

    Raises:
        LaunchError: it could not be deployed.
        ConfigError: an application refuses its ``args``.
    """
    began = time.monotonic()
    deployed = _own(content, out) if address is None else _joined(address, content, out)
    with deployed as gcs:
        with ExitStack() as clients:
            asked = [clients.enter_context(HttpRewardClient(url)) for url in urls(content)]

            def answers() -> bool:
                return address is not None or all(client.is_ready() for client in asked)

            wait_until_ready(out, _names(content), answers)
            reached = [client.is_ready() for client in asked]
        where = [url for url, ready in zip(urls(content), reached, strict=True) if ready]
        _say_where(content, where, gcs, time.monotonic() - began, out)
        while True:
            signals.check()
            signal.pause()


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


def wait_until_ready(
    out: Console,
    names: Iterable[str],
    is_ready: Callable[[], bool],
    timeout_s: float = float("inf"),
) -> None:
    """Show what Serve says of these applications until all run and ``is_ready``.

    Raises:
        LaunchError: one failed, or the time is over.
    """
    began, shown = time.monotonic(), ""
    with out.status("deploying") as status:
        while True:
            signals.check()
            states = {name: _state(name) for name in names}
            elapsed = time.monotonic() - began
            progress = "; ".join(f"{name}: {state.lower()}" for name, (state, _) in states.items())
            status.update(f"{progress} ({elapsed:.0f} s)")
            if progress != shown and not out.is_terminal:
                out.print(progress, markup=False, highlight=False)
            shown = progress
            for name, (state, message) in states.items():
                if state in _FAILED or elapsed > timeout_s:
                    raise LaunchError(f"{name}: {state.lower()} after {elapsed:.0f} s: {message}")
            if all(state == "RUNNING" for state, _ in states.values()) and is_ready():
                return
            time.sleep(_POLL_S)


def urls(content: dict[str, Any]) -> list[str]:
    """Where the file's applications answer over HTTP, from this machine."""
    http = content["http_options"]
    host = http.get("host", "0.0.0.0")
    host = "127.0.0.1" if host in _EVERY_INTERFACE else host
    base = f"http://{host}:{http.get('port', 8000)}"
    prefixes = [each.get("route_prefix", "/") for each in content["applications"]]
    return [base + prefix.rstrip("/") for prefix in prefixes if prefix is not None]


def set_start_settings() -> None:
    """Set what Ray must be started with, where the environment does not say otherwise."""
    for name, value in START_SETTINGS.items():
        os.environ.setdefault(name, value)


@contextmanager
def _own(content: dict[str, Any], out: Console) -> Iterator[str]:
    """Serve on a Ray cluster of this process's own, which is gone afterwards; its address."""
    _check_port(content["http_options"])
    set_start_settings()
    import ray
    from ray import serve

    try:
        with out.status("starting Ray"):
            gcs = _started()
        serve_run(gcs, content)
        yield gcs
    except LaunchError as error:
        node = ray._private.worker.global_worker.node
        logs = Path(node.get_logs_dir_path(), "serve") if node else "/tmp/ray/session_latest/logs"
        raise LaunchError(f"{error}\nlogs: {logs}") from None
    finally:
        signals.ignore()
        if ray.is_initialized():
            with out.status("ending"):
                serve.shutdown()
        ray.shutdown()


@contextmanager
def _joined(address: str, content: dict[str, Any], out: Console) -> Iterator[str]:
    """Serve on a cluster that runs, beside what it serves; its address.

    Afterwards these applications are gone, and Serve, where it did not run before.
    """
    if address.startswith("ray://"):
        raise LaunchError(
            f"--address {address}: Ray Client is not supported; run this on a machine of the "
            "cluster, with --address auto"
        )
    import ray
    from ray import serve

    try:
        gcs = _connect(address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise LaunchError(f"--address {address}: {error}") from None
    try:
        before = serve.status()
        if taken := sorted(before.applications.keys() & set(_names(content))):
            raise LaunchError(
                f"--address {address}: this cluster serves an application {taken[0]!r} already; "
                "give yours another `name` and `route_prefix` in a deployments file (--dry-run "
                "prints it)"
            )
        try:
            with out.status("deploying"):
                _deploy_beside(content)
            yield gcs
        finally:
            signals.ignore()
            with out.status("ending"):
                _delete(content, had_serve=bool(before.applications or before.proxies))
    finally:
        signals.ignore()
        ray.shutdown()


def _started() -> str:
    try:
        return _connect("local")
    except Exception as error:  # where a process of Ray's is late, no more than that
        raise LaunchError(f"Ray did not start, try again: {error}") from None


def _connect(address: str) -> str:
    """Connect to a cluster, or start one ("local"); the address that others reach it by."""
    import ray

    try:
        ray.init(address=address, namespace="serve", log_to_driver=False, logging_level="error")
    except SystemExit:  # a handler of SIGTERM that Ray sets
        raise Stopped from None
    signals.listen()
    return str(ray.get_runtime_context().gcs_address)


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
    for name in _names(content):
        if name in there:
            serve.delete(name)
    if not had_serve and not serve.status().applications:
        serve.shutdown()


def _names(content: dict[str, Any]) -> list[str]:
    return [str(each.get("name", "default")) for each in content["applications"]]


def _state(name: str) -> tuple[str, str]:
    """What Serve says of an application: its state, and why."""
    from ray import serve

    app = serve.status().applications.get(name)
    if app is None:
        return "WAITING", ""
    reasons = [app.message, *(each.message for each in app.deployments.values())]
    return str(app.status.value), "; ".join(filter(None, reasons))


def _say_where(
    content: dict[str, Any], where: list[str], gcs: str, took_s: float, out: Console
) -> None:
    """Print what to give to a trainer; ``where`` it answers over HTTP from this machine."""
    import ray

    lines = [f"ready after {took_s:.0f} s; Ctrl-C ends it"]
    if content["http_options"].get("host", "0.0.0.0") in _EVERY_INTERFACE:
        node = ray.util.get_node_ip_address()
        where = where + [url.replace("127.0.0.1", node, 1) for url in where]
    lines += [f"REWARD_SERVE_URL={url}" for url in where]
    lines += [f"REWARD_SERVE_APP={name} RAY_ADDRESS={gcs}" for name in _names(content)]
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _check_port(http: dict[str, Any]) -> None:
    host, port = http.get("host", "0.0.0.0"), http.get("port", 8000)
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise LaunchError(f"{host}:{port}: {error.strerror}; choose another --port") from None
