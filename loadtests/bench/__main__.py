"""``make bench``: run benchmarks and write bench.json.

The report has each benchmark's machine and command. Benchmarks that are not run keep their figures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from deployments.local import console
from examples.demo import SAMPLES
from loadtests.bench import (
    bare_engine,
    cache,
    groups,
    instant_model,
    kinds,
    label_mode,
    long,
    rubric,
    turns,
    waiting,
)
from loadtests.bench.common import machine, read_requests

RESULTS = Path(__file__).parents[1] / "results"


def main(
    only: Annotated[str, typer.Option(help="Benchmarks, as in P1,cache; default: all.")] = "",
    data: Annotated[Path, typer.Option(help="Labelled rows; their responses are sent.")] = SAMPLES,
    rounds: Annotated[int, typer.Option(min=1, help="Alternating repeats.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for bench.json.")] = RESULTS,
) -> None:
    """Run the benchmarks and print their figures."""
    requests = read_requests(data)
    known: dict[str, Callable[[], dict[str, Any]]] = {
        "P1": lambda: label_mode.run(requests),
        "P2": lambda: bare_engine.run(requests, 2 * rounds + 1),  # its differences are small
        "P3": lambda: instant_model.run(rounds),
        "P4": lambda: groups.run(requests, rounds),
        "waiting": lambda: waiting.run(rounds),
        "long": lambda: long.run(rounds),
        "rubric": lambda: rubric.run(rounds),
        "turns": lambda: turns.run(rounds, data),
        "kinds": lambda: kinds.run(requests),
        "cache": lambda: cache.run(requests),
    }
    chosen = [name for name in only.split(",") if name] or list(known)
    if unknown := set(chosen) - known.keys():
        raise typer.BadParameter(f"only: unknown {sorted(unknown)}; known: {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "bench.json"
    report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name in chosen:
        began = time.monotonic()
        measured = known[name]()
        report[name] = {
            **measured,
            "command": f"make bench ONLY={name}"
            + (f" DATA={data.name}" if data != SAMPLES else ""),
            "took_s": round(time.monotonic() - began, 1),
            "machine": machine(),
        }
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        console.print_json(json.dumps({name: measured}))
    console.print(str(path), markup=False)


if __name__ == "__main__":
    typer.run(main)
