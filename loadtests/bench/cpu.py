"""CPU seconds of each part of the service and of the benchmark itself."""

from __future__ import annotations

from collections import defaultdict

import psutil

_PARTS = {
    "VLLM::EngineCore": "engine",
    "ray::ServeReplica:reward:judge": "replica",
    "ray::ServeReplica:reward:ingress": "ingress",
    "ray::ProxyActor": "proxy",
    "ray::ServeController": "controller",
}

Reading = dict[psutil.Process, tuple[str, float]]
"""Each live process's part of the service and CPU seconds so far."""


def cpu_seconds() -> Reading:
    """CPU seconds of this process and its descendants."""
    own = psutil.Process()
    parts = {own: "client", **{child: _part(child) for child in own.children(recursive=True)}}
    read = {process: (part, _seconds(process)) for process, part in parts.items()}
    return {process: (part, used) for process, (part, used) in read.items() if used is not None}


def spent(before: Reading, after: Reading) -> dict[str, float]:
    """CPU seconds used between two readings, by part; processes that exited are left out."""
    used: dict[str, float] = defaultdict(float)
    for process, (part, seconds) in after.items():
        used[part] += seconds - before.get(process, (part, 0.0))[1]
    return dict(used)


def _part(process: psutil.Process) -> str:
    try:
        parent = process.parent()
    except psutil.Error:
        parent = None
    part = _titled(process)
    if part is None and _titled(parent) == "replica":
        return "engine"  # its own title cannot be read on every platform
    return part or "Ray's own"


def _titled(process: psutil.Process | None) -> str | None:
    try:
        title = " ".join(process.cmdline()) if process else ""
    except psutil.Error:
        return None
    if "vllm.entrypoints" in title:
        return "vLLM's server"
    if "vllm.v1.engine.core" in title:
        return "engine"
    return next((part for start, part in _PARTS.items() if title.startswith(start)), None)


def _seconds(process: psutil.Process) -> float | None:
    """None if the process has exited."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)
