"""``make chaos``: inject every known fault into the service under load; write chaos.json.

Exit code 1 if a score was wrong, an answer was lost or hung, or a bound was missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from deployments.local import console
from loadtests.chaos.report import Figures, aborted, table
from loadtests.chaos.scenarios import cache, changes, kills, pauses, stand_in, teacher
from loadtests.reports import RESULTS, add_figures, chosen_of

Run = Callable[[Sequence[str]], Iterator[tuple[str, Figures]]]

_RUNS: list[tuple[tuple[str, ...], Run]] = [
    (module.NAMES, module.run) for module in (stand_in, pauses, changes, kills, teacher, cache)
]
NAMES = [name for names, _ in _RUNS for name in names]


def main(
    only: Annotated[
        str, typer.Option(help="Scenarios, as in faults,node_lost; default: all.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder for chaos.json.")] = RESULTS,
) -> None:
    """Run the scenarios and print their results."""
    chosen, path = chosen_of(only, NAMES), out / "chaos.json"
    now: dict[str, Figures] = {}
    for names, run in _RUNS:
        asked = [name for name in names if name in chosen]
        for name, figures in _run(run, asked) if asked else ():
            now[name] = figures
            add_figures(path, name, figures, f"make chaos ONLY={name}")
            console.print(table({name: figures}))
    console.print(table(now))
    console.print(str(path), markup=False)
    raise typer.Exit(int(any(figures["missed"] for figures in now.values())))


def _run(run: Run, names: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Run the scenarios of one module; report those that abort, too."""
    left = list(names)
    began = time.monotonic()
    try:
        for name, figures in run(names):
            left.remove(name)
            yield name, {**figures, "took_s": round(time.monotonic() - began, 1)}
            began = time.monotonic()
    except (Exception, SystemExit) as error:
        console.print_exception()
        yield from ((name, aborted(error)) for name in left)


if __name__ == "__main__":
    typer.run(main)
