"""Processes of a Ray Serve application: find, measure, kill, suspend or starve them."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress

import psutil

CONTROLLER = "ServeController"
PROXY = "ProxyActor"
REPLICA = "ServeReplica:"


def actors(kind: str) -> dict[int, str]:
    """Process id to class name of the live actors whose class name starts with ``kind``."""
    from ray._private import state

    alive = state.actors(actor_state_name="ALIVE").values()
    names = {actor["Pid"]: str(actor["ActorClassName"]) for actor in alive}
    return {pid: name for pid, name in names.items() if name.startswith(kind)}


def only(kind: str) -> int:
    """The process id of the only actor of a kind.

    Raises:
        LookupError: there is no such actor, or more than one.
    """
    live = actors(kind)
    if len(live) != 1:
        raise LookupError(f"{kind}: {len(live)} live actors, not 1")
    return next(iter(live))


def engine_core(replica_pid: int) -> int:
    """The child process that holds a replica's weights.

    It is the largest one; its title cannot be read on every platform.
    """
    children = psutil.Process(replica_pid).children(recursive=True)
    return max(children, key=lambda child: child.memory_info().rss).pid


def kill(pid: int) -> None:
    """SIGKILL."""
    os.kill(pid, signal.SIGKILL)


def suspend(pid: int) -> None:
    """SIGSTOP: it keeps its memory and connections, and makes no progress."""
    os.kill(pid, signal.SIGSTOP)


def starve(pid: int) -> None:
    """Limit the process to the address space it has, so that further allocations fail."""
    used = psutil.Process(pid).memory_info().vms
    resource.prlimit(pid, resource.RLIMIT_AS, (used, used))


def memory_mib() -> dict[str, float]:
    """Resident MiB by deployment, or class name of Serve's own actors; children included."""
    sizes: dict[str, float] = {}
    for kind in (CONTROLLER, PROXY, REPLICA):
        for pid, name in actors(kind).items():
            label = name.removeprefix(REPLICA).rpartition(":")[2]
            if (mib := rss_mib(pid)) is not None:
                sizes[label] = round(sizes.get(label, 0.0) + mib, 1)
    return sizes


def rss_mib(pid: int) -> float | None:
    """Resident MiB of a process and its live children; None if it has exited."""
    try:
        process = psutil.Process(pid)
        size, children = process.memory_info().rss, process.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    for child in children:
        with suppress(psutil.NoSuchProcess):
            size += child.memory_info().rss
    return float(size / 2**20)
