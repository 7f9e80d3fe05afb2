"""Serves a deployments file until SIGINT or SIGTERM."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rich.console import Console

from reward_serve.cli.clusters import LaunchError, joined_cluster, no_process_left, own_cluster
from reward_serve.cli.console import PLAIN
from reward_serve.cli.controller import ReplicaReports, State, cause, states
from reward_serve.cli.outage import Endpoint, http_endpoints, outage
from reward_serve.cli.signals import signals
from reward_serve.client.http import HttpRewardClient

if TYPE_CHECKING:
    from reward_serve.cli.file_schema import DeploymentsFile

_POLL_S = 0.5
_PROXY_GRACE_S = 5.0
_ABSENCE_S = 10.0


def serve_until_stopped(file: DeploymentsFile, address: str | None, out: Console) -> None:
    """Serve a deployments file until ``Stopped`` is raised, then shut down.

    Call this within ``until_stopped``.

    Args:
        file: the deployments file.
        address: address of a running Ray cluster, which keeps running; None starts a cluster.
        out: console for progress and the addresses for trainers.

    Raises:
        LaunchError: deployment failed, or Ray or Serve is gone.
        ConfigError: an application's ``args`` are invalid.
    """
    began = time.monotonic()
    deployed = own_cluster(file, out) if address is None else joined_cluster(address, file, out)
    with no_process_left(), deployed as cluster:
        reports = ReplicaReports()
        with ExitStack() as stack:
            clients = {url: stack.enter_context(HttpRewardClient(url)) for url in file.urls}

            def is_reached() -> bool:
                return all(client.is_ready() for client in clients.values())

            def is_usable(found: dict[str, State]) -> bool:
                _print(reports.lines(found.values()), out)
                # A running cluster may serve HTTP on other machines or another port.
                return all(state.is_usable for state in found.values()) and (
                    address is not None or is_reached()
                )

            wait_until(is_usable, out, file.names, cluster.endpoints)
            until = time.monotonic() + _PROXY_GRACE_S
            while not is_reached() and time.monotonic() < until:
                _pause(cluster.endpoints)
            reached = [url for url, client in clients.items() if client.is_ready()]
        _print_addresses(file, reached, cluster.address, time.monotonic() - began, out)
        _watch(file.names, cluster.endpoints + http_endpoints(reached), reports, out)


def _watch(
    names: list[str], endpoints: list[Endpoint], reports: ReplicaReports, out: Console
) -> None:
    """Report changes until a signal; raise ``LaunchError`` when Ray or Serve is gone."""
    absent_since = None
    while True:
        _pause(endpoints)
        found = states(names)
        _print(reports.lines(found.values()), out)
        if not any(state.name == "ABSENT" for state in found.values()):
            absent_since = None
            continue
        absent_since = absent_since or time.monotonic()
        if time.monotonic() - absent_since >= _ABSENCE_S:
            raise LaunchError("Serve, or an application of this file, was removed from the cluster")


def wait_until(
    is_done: Callable[[dict[str, State]], bool],
    out: Console,
    names: Iterable[str],
    endpoints: Iterable[Endpoint] = (),
    timeout_s: float = float("inf"),
) -> None:
    """Show the applications' status until ``is_done``, which gets their states by name.

    Raises:
        LaunchError: an application failed, an endpoint is gone, or ``timeout_s`` passed.
    """
    began, shown = time.monotonic(), ""
    with out.status("deploying") as status:
        while True:
            found = states(names)
            elapsed = time.monotonic() - began
            progress = "; ".join(f"{name}: {state.name.lower()}" for name, state in found.items())
            status.update(f"{progress} ({elapsed:.0f} s)")
            if progress != shown and not out.is_terminal:
                _print([progress], out)
            shown = progress
            for name, state in found.items():
                if state.has_failed or elapsed > timeout_s:
                    what = f"{name}: {state.name.lower()} after {elapsed:.0f} s"
                    raise LaunchError(f"{what}: {cause(state.message)}")
            if is_done(found):
                return
            _pause(endpoints)


def _pause(endpoints: Iterable[Endpoint]) -> None:
    """Sleep until the next poll; raises ``LaunchError`` if an endpoint is gone."""
    signals.check()
    if reason := outage(endpoints):
        raise LaunchError(reason)
    time.sleep(_POLL_S)


def _print(lines: Iterable[str], out: Console) -> None:
    for line in lines:
        out.print(line, **PLAIN)


def _print_addresses(
    file: DeploymentsFile, reached: list[str], gcs: str, took_s: float, out: Console
) -> None:
    """Print the addresses for trainers and the workbench.

    ``reached`` are the URLs that answered here.
    """
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
    _print(lines, out)
