"""Serves a deployments file until a signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from rich.console import Console

from reward_serve.client.http import HttpRewardClient
from reward_serve.launch.clusters import (
    LaunchError,
    application_names,
    joined_cluster,
    no_process_left,
    own_cluster,
)
from reward_serve.launch.signals import signals

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_EVERY_INTERFACE = ("0.0.0.0", "::")
_POLL_S = 0.5
_PROXY_GRACE_S = 5.0


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
    deployed = (
        own_cluster(content, out) if address is None else joined_cluster(address, content, out)
    )
    with no_process_left(), deployed as gcs:
        with ExitStack() as clients:
            asked = {url: clients.enter_context(HttpRewardClient(url)) for url in urls(content)}

            def is_reached() -> bool:
                return all(client.is_ready() for client in asked.values())

            # On another's cluster HTTP may be answered elsewhere, or on another port.
            is_up = is_reached if address is None else lambda: True
            wait_until_ready(out, application_names(content), is_up)
            until = time.monotonic() + _PROXY_GRACE_S
            while not is_reached() and time.monotonic() < until:
                time.sleep(_POLL_S)
            where = [url for url, client in asked.items() if client.is_ready()]
        _say_where(content, where, gcs, time.monotonic() - began, out)
        while True:
            signals.check()
            signal.pause()


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
    host = "127.0.0.1" if http["host"] in _EVERY_INTERFACE else http["host"]
    base = f"http://{host}:{http.get('port', 8000)}"
    prefixes = [each.get("route_prefix", "/") for each in content["applications"]]
    return [base + prefix.rstrip("/") for prefix in prefixes if prefix is not None]


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
    if content["http_options"]["host"] in _EVERY_INTERFACE:
        node = ray.util.get_node_ip_address()
        where = where + [url.replace("127.0.0.1", node, 1) for url in where]
    lines += [f"REWARD_SERVE_URL={url}" for url in where]
    if not where and urls(content):
        lines.append("over HTTP: on the machines and the port where this cluster's Serve listens")
    lines += [f"REWARD_SERVE_APP={name} RAY_ADDRESS={gcs}" for name in application_names(content)]
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
