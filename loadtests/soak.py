"""Half an hour of GRPO bursts, with the memory of every deployment of the service.

It fails if the load test fails or a deployment grows: the median of the last tenth of the bursts
minus that of the second tenth, when everything has been used once. The check after the load, which
sends every input again in full batches, is shown but not counted.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from deployments.local import console, deployed
from loadtests.chaos.processes import memory_mib
from loadtests.load.__main__ import run
from loadtests.reports import RESULTS, this_machine, write_report

_PERIOD_S = 5.0

Sizes = Mapping[str, float]


def main(
    minutes: Annotated[float, typer.Option(min=0.5)] = 30.0,
    max_growth_mib: Annotated[float, typer.Option(help="Most growth of any deployment.")] = 64.0,
    out: Annotated[Path, typer.Option(help="Folder for soak.json.")] = RESULTS,
) -> None:
    """Deploy the bundled judge, load it and sample its memory."""
    out.mkdir(parents=True, exist_ok=True)
    summary = out / "soak-summary.json"
    with deployed() as service, watched(memory_mib, _PERIOD_S) as memory:
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
        "machine": this_machine(),
    }
    summary.unlink()
    write_report(out / "soak.json", report)
    console.print_json(json.dumps({k: v for k, v in report.items() if k != "machine"}))
    too_large = [name for name, mib in grown.items() if mib > max_growth_mib]
    for name in too_large:
        console.print(f"{name} has grown by {grown[name]:.0f} MiB", style="red")
    raise typer.Exit(code or bool(too_large))


@dataclass
class Memory:
    """Resident MiB of each deployment over time."""

    times_s: list[float] = field(default_factory=list)
    samples: list[Sizes] = field(default_factory=list)

    def until(self, end_s: float) -> list[Sizes]:
        """The samples up to ``end_s`` seconds; at least one."""
        kept = [
            sample for at, sample in zip(self.times_s, self.samples, strict=True) if at <= end_s
        ]
        return kept or self.samples[:1]

    @property
    def peaks(self) -> dict[str, float]:
        """The largest sample of each deployment."""
        names = {name for sample in self.samples for name in sample}
        return {
            name: max(sample.get(name, 0.0) for sample in self.samples) for name in sorted(names)
        }


@contextmanager
def watched(sizes: Callable[[], Sizes], period_s: float) -> Iterator[Memory]:
    """Sample at once and then every ``period_s`` seconds while the context lasts."""
    memory, over, began = Memory(), threading.Event(), time.monotonic()

    def watch() -> None:
        while not over.wait(period_s if memory.samples else 0):
            memory.samples.append(sizes())
            memory.times_s.append(time.monotonic() - began)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        over.set()
        thread.join()


def growth_mib(samples: Sequence[Sizes]) -> dict[str, float]:
    """Growth of each deployment from the second tenth of the samples to the last.

    A deployment that one of the two lacks is left out.
    """
    tenth = max(1, len(samples) // 10)
    early, late = samples[tenth : 2 * tenth] or samples[:1], samples[-tenth:]
    before, after = _medians(early), _medians(late)
    return {name: after[name] - before[name] for name in before if name in after}


def _medians(samples: Sequence[Sizes]) -> dict[str, float]:
    names = dict.fromkeys(name for sample in samples for name in sample)
    return {name: statistics.median(s[name] for s in samples if name in s) for name in names}


if __name__ == "__main__":
    typer.run(main)
