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


Seconds = dict[str, float]


def cpu_seconds() -> Seconds:
    """CPU seconds so far of this process and its descendants, by part of the service."""
    own = psutil.Process()
    seconds = defaultdict(float, {"client": _seconds(own)})
    for child in own.children(recursive=True):
        seconds[_part(child)] += _seconds(child)
    return dict(seconds)


def spent(before: Seconds, after: Seconds) -> Seconds:
    """CPU seconds used between two readings, by part."""
    return {part: after[part] - before.get(part, 0.0) for part in after}


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
    return next((part for start, part in _PARTS.items() if title.startswith(start)), None)


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
