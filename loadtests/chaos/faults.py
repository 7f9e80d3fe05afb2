"""Processes of a Ray Serve application: which they are, what they hold, and their ends."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator

import psutil

CONTROLLER = "ServeController"
PROXY = "ProxyActor"
REPLICA = "ServeReplica:"


def actors(kind: str) -> dict[int, str]:
    """Process id to class name of this cluster's live actors of a kind; see the names above."""
    from ray._private import state

    alive = state.actors(actor_state_name="ALIVE").values()
    found = {actor["Pid"]: str(actor["ActorClassName"]) for actor in alive}
    return {pid: name for pid, name in found.items() if name.startswith(kind)}


def only(kind: str) -> int:
    """The process of the only actor of a kind.

    Raises:
        LookupError: there is none, or several.
    """
    found = actors(kind)
    if len(found) != 1:
        raise LookupError(f"{kind}: {len(found)} live actors, not 1")
    return next(iter(found))


def engine_core(replica_pid: int) -> int:
    """The process that holds a replica's weights.

    Told by its memory: its title is not to be read everywhere.
    """
    children = psutil.Process(replica_pid).children(recursive=True)
    return max(children, key=lambda child: child.memory_info().rss).pid


def kill(pid: int) -> None:
    """SIGKILL."""
    os.kill(pid, signal.SIGKILL)


def suspend(pid: int) -> None:
    """SIGSTOP: it lives, holds what it holds and does nothing."""
    os.kill(pid, signal.SIGSTOP)


def starve(pid: int) -> None:
    """Let the process have no more memory than it has: allocations that need new space fail."""
    used = psutil.Process(pid).memory_info().vms
    resource.prlimit(pid, resource.RLIMIT_AS, (used, used))


def memory_mib() -> dict[str, float]:
    """Resident MiB of the application's processes, children included, by what they are.

    Replicas of one deployment together.
    """
    told: dict[str, float] = {}
    for pid, name in _application():
        label = name.removeprefix(REPLICA).rpartition(":")[2]
        told[label] = round(told.get(label, 0.0) + rss_mib(pid), 1)
    return told


def rss_mib(pid: int) -> float:
    """Resident MiB of a process and its children; 0 where it has gone."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        return float(sum(one.memory_info().rss for one in family) / 2**20)
    except psutil.NoSuchProcess:
        return 0.0


def _application() -> Iterator[tuple[int, str]]:
    for kind in (CONTROLLER, PROXY, REPLICA):
        yield from actors(kind).items()
