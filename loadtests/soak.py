"""Half an hour of GRPO bursts, with the memory of every process of the service.

It fails if the load test fails or a process grows: the median of the last tenth of the bursts minus
that of the second tenth, when everything has been used once. The check after the load, which sends
every input again in full batches, is shown but not counted.
"""

from __future__ import annotations

import json
import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from deployments.local import console, deployed
from loadtests.bench.common import machine
from loadtests.load.__main__ import run
from reward_serve import HttpRewardClient

RESULTS = Path(__file__).parent / "results"
_PERIOD_S = 5.0
_MIB = 2**20

Sizes = Mapping[str, float]


def main(
    minutes: Annotated[float, typer.Option(min=0.5)] = 30.0,
    max_growth_mib: Annotated[float, typer.Option(help="Most growth of any process.")] = 64.0,
    out: Annotated[Path, typer.Option(help="Folder for soak.json and soak.png.")] = RESULTS,
) -> None:
    """Deploy the bundled judge, load it and sample its memory."""
    out.mkdir(parents=True, exist_ok=True)
    summary = out / "soak-summary.json"
    with deployed() as service, HttpRewardClient(service.url) as http:
        replica = psutil.Process(int(http.models()[0]["pid"]))
        with watched(lambda: resident_mib(replica)) as memory:
            load = ["--shape", "grpo_burst", "--duration", str(60 * minutes)]
            report_to = ["--headless", "--only-summary", "--summary", str(summary)]
            code = run(["--host", service.url, *load, *report_to])
    bursts = memory.until(60 * minutes)
    grown = growth_mib(bursts)
    report = {
        **json.loads(summary.read_text(encoding="utf-8")),
        "memory_mib": {
            name: {
                "first": bursts[0].get(name),
                "last": bursts[-1].get(name),
                "grown": grown[name],
                "after_the_check": memory.samples[-1].get(name),
            }
            for name in grown
        },
        "command": f"python -m loadtests.soak --minutes {minutes:g}",
        "machine": machine(),
    }
    summary.unlink()
    (out / "soak.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    plot(memory, minutes, out / "soak.png")
    console.print_json(json.dumps({k: v for k, v in report.items() if k != "machine"}))
    too_large = [name for name, mib in grown.items() if mib > max_growth_mib]
    for name in too_large:
        console.print(f"{name} has grown by {grown[name]:.0f} MiB", style="red")
    raise typer.Exit(code or bool(too_large))


@dataclass
class Memory:
    """Resident MiB of each process over time."""

    times_s: list[float] = field(default_factory=list)
    samples: list[Sizes] = field(default_factory=list)

    def until(self, end_s: float) -> list[Sizes]:
        """The samples up to ``end_s`` seconds; at least one."""
        kept = [one for at, one in zip(self.times_s, self.samples, strict=True) if at <= end_s]
        return kept or self.samples[:1]

    @property
    def peaks(self) -> dict[str, float]:
        """The largest sample of each process."""
        names = {name for sample in self.samples for name in sample}
        return {name: max(one.get(name, 0.0) for one in self.samples) for name in sorted(names)}


@contextmanager
def watched(sizes: Callable[[], Sizes], period_s: float | None = None) -> Iterator[Memory]:
    """Sample at once and then every ``period_s`` seconds (default 5) while the context lasts."""
    memory, over, began = Memory(), threading.Event(), time.monotonic()

    def watch() -> None:
        while not over.wait((period_s or _PERIOD_S) if memory.samples else 0):
            memory.samples.append(sizes())
            memory.times_s.append(time.monotonic() - began)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        over.set()
        thread.join()


def resident_mib(replica: psutil.Process) -> dict[str, float]:
    """Resident MiB of the replica, its engine (its largest child) and the rest of the cluster.

    A process that has exited is absent.
    """
    children = [one for one in psutil.Process().children(recursive=True) if not _is_load(one)]
    sizes = {child.pid: mib for child in children if (mib := _rss(child)) is not None}
    try:
        engines = {child.pid for child in replica.children(recursive=True)} & sizes.keys()
    except psutil.NoSuchProcess:
        engines = set()
    found = {"replica": sizes.pop(replica.pid, None)}
    found["engine"] = sizes.pop(max(engines, key=sizes.__getitem__)) if engines else None
    found["ingress and Ray"] = sum(sizes.values())
    return {name: mib for name, mib in found.items() if mib is not None}


def growth_mib(samples: Sequence[Sizes]) -> dict[str, float]:
    """Growth of each process from the second tenth of the samples to the last.

    Samples without the process are left out, and so is a process that one of the two lacks.
    """
    tenth = max(1, len(samples) // 10)
    early, late = samples[tenth : 2 * tenth] or samples[:1], samples[-tenth:]
    before, after = _medians(early), _medians(late)
    return {name: after[name] - before[name] for name in before if name in after}


def plot(memory: Memory, minutes: float, path: Path) -> None:
    """Plot each process's memory during the bursts and the check after them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 3.5), layout="constrained")
    at = [seconds / 60 for seconds in memory.times_s]
    axis.axvspan(minutes, max(minutes, at[-1]), color="0.9", label="check without load")
    for name in memory.samples[0]:
        sizes = [sample.get(name, math.nan) for sample in memory.samples]
        axis.plot(at, sizes, label=name)
    axis.set(xlabel=f"minutes; {minutes:g} of grpo_burst", ylabel="resident memory, MiB")
    axis.set_ylim(bottom=0)
    axis.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _medians(samples: Sequence[Sizes]) -> dict[str, float]:
    names = dict.fromkeys(name for sample in samples for name in sample)
    return {name: statistics.median(s[name] for s in samples if name in s) for name in names}


def _is_load(process: psutil.Process) -> bool:
    try:
        return "locust" in process.cmdline()
    except psutil.Error:
        return False


def _rss(process: Any) -> float | None:
    try:
        return float(process.memory_info().rss) / _MIB
    except psutil.NoSuchProcess:
        return None


if __name__ == "__main__":
    typer.run(main)
