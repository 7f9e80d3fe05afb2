"""Deploys a deployments file on a new or a running Ray cluster, and stops what it started.

Ray reads ``START_SETTINGS`` from the environment of the process that starts it; a deployments file
cannot set them.
"""

from __future__ import annotations

import os
import pkgutil
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml
from rich.console import Console

from reward_serve.cli.console import PLAIN
from reward_serve.keys import use_ray_token

if TYPE_CHECKING:
    from reward_serve.cli.file_schema import DeploymentsFile

START_SETTINGS = {
    # By default Ray runs its workers, and so replicas and engines, at nice 15.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}

_POLL_S = 0.5
_WATCH_S = 2.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?:\([\w.]*\))?:")


class LaunchError(RuntimeError):
    """Deployment failed; the message has the cause."""


def interrupt_on_signals() -> None:
    """SIGTERM raises KeyboardInterrupt as SIGINT does, even if a shell had ignored SIGINT."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def serve_until_stopped(file: DeploymentsFile, address: str | None, out: Console) -> None:
    """Serve a deployments file until a signal, then stop what this started.

    It prints which endpoints are down, and does not watch Ray or Serve: a supervisor that must
    know asks ``/ready``.

    The Ray cluster at ``address`` keeps running; without one, a cluster is started. ``out`` gets
    the progress and the addresses for trainers.

    Raises:
        KeyboardInterrupt: SIGINT or SIGTERM was received.
        LaunchError: deployment failed.
        ConfigError: an application's ``args`` are invalid.
    """
    began, down = time.monotonic(), dict.fromkeys(file.urls, "")

    def serving() -> list[str]:
        return [url for url in file.urls if readiness(url)["status"] != "waiting"]

    with deployed(file, address, out):
        # A running cluster may serve HTTP on other machines or another port.
        wait_until(lambda: address is not None or serving() == file.urls, out, file.names)
        _print_addresses(file, serving(), time.monotonic() - began, out)
        while True:
            for url, before in down.items():
                ready = readiness(url)
                if ready["status"] != "waiting" and ready.get("detail", "") != before:
                    down[url] = ready.get("detail", "")
                    out.print(down[url] or f"{url}: every endpoint answers again", **PLAIN)
            time.sleep(_WATCH_S)


def readiness(url: str) -> dict[str, str]:
    """The reply of ``/ready``; ``status`` is ``down`` if only endpoints are to blame."""
    reply = {"status": "waiting"}
    with suppress(httpx.HTTPError, ValueError):
        reply |= httpx.get(f"{url}/ready", trust_env=False).json()
    return reply


def wait_until(
    is_ready: Callable[[], bool], out: Console, names: list[str], timeout_s: float = float("inf")
) -> None:
    """Show the applications' status until all are running and ``is_ready``.

    Raises:
        LaunchError: an application failed, or ``timeout_s`` passed.
    """
    from ray import serve

    began, printed = time.monotonic(), ""
    with out.status("deploying") as status:
        while True:
            applications = serve.status().applications
            present = {name: applications[name] for name in names if name in applications}
            elapsed = time.monotonic() - began
            texts = {name: f"{name}: {_progress(app)}" for name, app in present.items()}
            progress = "; ".join(texts.values())
            status.update(f"{progress} ({elapsed:.0f} s)")
            if progress != printed and not out.is_terminal:
                out.print(progress, **PLAIN)
            printed = progress
            for name, app in present.items():
                if app.status in ("DEPLOY_FAILED", "UNHEALTHY"):
                    raise LaunchError(texts[name])
            running = [name for name, app in present.items() if app.status == "RUNNING"]
            if running == names and is_ready():
                return
            if elapsed > timeout_s:
                raise LaunchError(f"not ready after {elapsed:.0f} s: {progress}")
            time.sleep(_POLL_S)


def _progress(application: Any) -> str:
    """The application's status, and what Serve says of it: what it lacks, or why it failed."""
    parts = (application, *application.deployments.values())
    message = "; ".join(part.message for part in parts if part.message)
    return ": ".join(filter(None, (application.status.lower(), _cause(message))))


def _cause(message: str) -> str:
    """The error at the end of Serve's message, without the tracebacks."""
    lines = _COLOUR.sub("", message).strip().splitlines()
    if not any("Traceback (most recent call last)" in line for line in lines):
        return "\n".join(lines)
    places = [place for place, line in enumerate(lines) if _EXCEPTION.match(line)]
    return "\n".join(lines[places[-1] :] if places else lines[-1:])


@contextmanager
def deployed(file: DeploymentsFile, address: str | None, out: Console) -> Iterator[None]:
    """Deploy on a new Ray cluster, or beside a running one's applications.

    After the block the applications are deleted, and what this started is shut down: Ray, Serve.
    """
    if address is None:
        _check_port(file.http_options.host, file.http_options.port)
        set_start_settings()
    else:
        _check_beside(address, file.content)
        use_ray_token()
    import ray
    from ray import serve

    deployed, had_serve, logs = set[str](), True, ""
    try:
        with out.status("starting Ray" if address is None else "connecting"):
            logs = f"\nlogs: {_connect(address)}/logs/serve"
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
                serve_run(ray.get_runtime_context().gcs_address, file.content)
            else:
                _deploy_beside(file)
        yield
    except LaunchError as error:
        raise LaunchError(f"{error}{logs}") from None
    finally:
        with out.status("shutting down"):
            if address is not None and deployed:  # a cluster of its own ends as a whole
                present = serve.status().applications.keys()
                if not had_serve and present <= deployed:
                    serve.shutdown()
                else:
                    for name in present & deployed:
                        serve.delete(name)
            ray.shutdown()


def _connect(address: str | None) -> str:
    """Connect to the cluster at ``address``, or start one; returns its folder on this machine."""
    import ray

    options = {"include_dashboard": False} if address is None else {}
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        context = ray.init(address=address or "local", namespace="serve", **quiet, **options)
    except SystemExit:  # raised by Ray's SIGTERM handler
        raise KeyboardInterrupt from None
    except Exception as error:  # Ray's own type, if one of its processes starts too slowly
        failed = f"--address {address}" if address else "Ray did not start; try again"
        raise LaunchError(f"{failed}: {error}") from None
    interrupt_on_signals()  # Ray has its own handlers
    return str(context.address_info["session_dir"])


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
    for place, application in enumerate(content["applications"]):
        fields = application.keys() - {"name", "route_prefix", "import_path", "args"}
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
    for target in file.applications:
        application = pkgutil.resolve_name(target.import_path)(target.args)
        targets.append(serve.RunTarget(application, target.name, target.route_prefix))
    serve.start(file.content.get("proxy_location"), file.content["http_options"])
    try:
        serve.run_many(targets, wait_for_applications_running=False)
    except (RayServeException, ray.exceptions.RayTaskError) as error:
        raise LaunchError(str(error)) from None


def serve_run(address: str, content: dict[str, Any]) -> None:
    """``serve run`` the content on a cluster; if it fails, a ``LaunchError`` has its output."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "serve.yaml")
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = [sys.executable, "-m", "ray.serve.scripts", "run"]
        command += ["--non-blocking", "--address", address, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LaunchError(done.stdout + done.stderr)


def set_start_settings() -> None:
    """Set ``START_SETTINGS`` in the environment, except those already set, and Ray's token."""
    use_ray_token(starts=True)
    for name, value in START_SETTINGS.items():
        os.environ.setdefault(name, value)


def _print_addresses(
    file: DeploymentsFile, reached: list[str], took_s: float, out: Console
) -> None:
    """Print the addresses for trainers and the workbench; ``reached`` are URLs that answered."""
    import ray

    here = ray.get_runtime_context()
    (node,) = (node for node in ray.nodes() if node["NodeID"] == here.get_node_id())
    metrics = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    if file.is_on_every_interface:
        address = node["NodeManagerAddress"]
        reached = reached + [url.replace("127.0.0.1", address, 1) for url in reached]
    lines = [f"ready after {took_s:.0f} s; press Ctrl-C to stop"]
    lines += [f"REWARD_SERVE_URL={url}" for url in reached]
    if not reached and file.urls:
        lines.append("HTTP: on the machines and port where this cluster's Serve listens")
    lines += [f"REWARD_SERVE_APP={name} RAY_ADDRESS={here.gcs_address}" for name in file.names]
    if token := os.environ.get("RAY_AUTH_TOKEN_PATH"):
        lines.append(f"for your own ray.init: RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH={token}")
    lines.append(f"metrics of this node: {metrics}")
    lines += [f"reward-serve ui --url {url}" for url in reached[:1]]
    for line in lines:
        out.print(line, **PLAIN)
