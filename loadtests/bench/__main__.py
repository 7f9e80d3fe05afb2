"""``make bench``: run benchmarks and write bench.json.

The report has each benchmark's machine and command. Benchmarks that are not run keep their figures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

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
    teacher,
    turns,
    waiting,
)
from loadtests.bench.common import read_requests
from loadtests.reports import RESULTS, run_parts


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
        "teacher": lambda: teacher.run(rounds),
        "teacher_exact": lambda: teacher.exact(requests),
        "teacher_memory": teacher.memory,
    }
    of_data = f" DATA={data.name}" if data != SAMPLES else ""
    run_parts(known, only, out / "bench.json", lambda name: f"make bench ONLY={name}{of_data}")


if __name__ == "__main__":
    typer.run(main)
