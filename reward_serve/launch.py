"""Serves a deployments file until a signal: on a Ray cluster of its own, or on one that runs.

Ray reads some settings from the environment of the process that starts it, and the file cannot
say them: ``START_SETTINGS``.
"""

from __future__ import annotations

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
from types import FrameType
from typing import Any

import yaml
from rich.console import Console

from reward_serve.client.http import HttpRewardClient

START_SETTINGS = {
    # Ray has its workers give way to all else (nice 15), replicas and their engines among them.
    "RAY_worker_niceness": "0",
    # Serve's own HTTP proxy answers 500 where a header that it reads is not UTF-8.
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "reward_serve.http.proxy:middleware",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_EVERY_INTERFACE = ("0.0.0.0", "::")
_POLL_S = 0.5


class LaunchError(RuntimeError):
    """What the file describes could not be served; says why."""


class _Stopped(BaseException):
    """SIGINT or SIGTERM."""


def serve_until_stopped(content: dict[str, Any], address: str | None, out: Console) -> None:
    """Serve a deployments file's content, say where, and end all of it at SIGINT or SIGTERM.

    Args:
        content: of the file.
        address: of a Ray cluster that runs, where only what is deployed here is ended; None for a
            cluster of this process's own.
        out: where progress is shown. The addresses for trainers go there, too.

    Raises:
        LaunchError: it could not be deployed, or the cluster serves something else already.
    """
    began = time.monotonic()
    try:
        _listen(_stop)
        with ExitStack() as ending:
            ending.enter_context(_own(content, out) if address is None else _joined(address, out))
            import ray

            _listen(_stop)  # ray.init sets a handler of its own
            gcs = ray.get_runtime_context().gcs_address
            if address is not None:
                ending.enter_context(_deleted_afterwards(content))
            ending.callback(_listen, signal.SIG_IGN)
            serve_run(gcs, content)
            paths = [] if address else urls(content)
            with ExitStack() as clients:
                asked = [clients.enter_context(HttpRewardClient(url)) for url in paths]
                wait_until_ready(
                    out, _names(content), lambda: all(client.is_ready() for client in asked)
                )
            _say_where(content, gcs, time.monotonic() - began, out)
            while True:
                signal.pause()
    except _Stopped:
        out.print("ended", highlight=False)


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
def _own(content: dict[str, Any], out: Console) -> Iterator[None]:
    """A Ray cluster of this process's own; gone afterwards, with all that it ran."""
    _check_port(content["http_options"])
    set_start_settings()
    import ray
    from ray import serve

    try:
        with out.status("starting Ray"):
            ray.init(address="local", log_to_driver=False, logging_level="error")
        yield
    except LaunchError as error:
        logs = Path(ray._private.worker.global_worker.node.get_logs_dir_path(), "serve")
        raise LaunchError(f"{error}\nlogs: {logs}") from None
    finally:
        _listen(signal.SIG_IGN)
        if ray.is_initialized():
            with out.status("ending"):
                serve.shutdown()
        ray.shutdown()


@contextmanager
def _joined(address: str, out: Console) -> Iterator[None]:
    """A connection to a cluster that runs, and serves nothing yet."""
    import ray
    from ray import serve

    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", namespace="serve")
    except ConnectionError as error:
        raise LaunchError(f"--address {address}: {error}") from None
    try:
        if there := sorted(serve.status().applications):
            raise LaunchError(
                f"--address {address}: this cluster serves {', '.join(there)} already, which "
                "would be replaced; add the applications to its deployments file (--dry-run "
                "prints them) and `serve deploy` it"
            )
        yield
    finally:
        ray.shutdown()


@contextmanager
def _deleted_afterwards(content: dict[str, Any]) -> Iterator[None]:
    from ray import serve

    try:
        yield
    finally:
        _listen(signal.SIG_IGN)
        for name in _names(content):
            serve.delete(name)
        if not serve.status().applications:
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


def _say_where(content: dict[str, Any], gcs: str, took_s: float, out: Console) -> None:
    import ray

    lines = [f"ready after {took_s:.0f} s; Ctrl-C ends it"]
    where = urls(content)
    if content["http_options"].get("host", "0.0.0.0") in _EVERY_INTERFACE:
        node = ray.util.get_node_ip_address()
        where += [url.replace("127.0.0.1", node, 1) for url in where]
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


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _listen(handler: Any) -> None:
    """Set the handler of both; a shell starts what is in its background with SIGINT ignored."""
    for number in _SIGNALS:
        signal.signal(number, handler)
