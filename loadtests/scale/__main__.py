"""``make scale``: how far a deployment scales; scale.json.

``curve`` is an engine's, which the replicas of the other parts imitate.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from loadtests.reports import RESULTS, run_parts
from loadtests.scale import costs, nodes, virtual


def main(
    only: Annotated[str, typer.Option(help="Parts, as in handle,faults; default: all.")] = "",
    out: Annotated[Path, typer.Option(help="Folder of scale.json.")] = RESULTS,
    most: Annotated[int, typer.Option(help="Most replicas, and Ray nodes.")] = 24,
) -> None:
    """Run the parts and print their figures."""
    path = out / "scale.json"
    small: dict[str, Any] = {"nodes": min(nodes.NODES, most + 1)}
    counts = [n for n in nodes.REPLICAS if n <= most]

    def measured() -> nodes.Curve:
        seconds = json.loads(path.read_text(encoding="utf-8"))["curve"]["seconds"]
        return {int(items): value for items, value in seconds.items()}

    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "curve": costs.curve,
        "costs": costs.measure,
        "handle": lambda: nodes.curves(measured(), ["calm", "full"], counts, **small),
        "http": lambda: nodes.curves(measured(), ["calm"], counts[1::2], True, **small),
        "faults": lambda: nodes.faults(measured(), min(most, 16), **small),
        "scaling": lambda: nodes.scaling(measured(), most, **small),
    }
    for name, run in {
        "virtual": virtual.run,
        "held": virtual.held,
        "plan": virtual.planned,
    }.items():
        parts[name] = partial(run, path)
    run_parts(parts, only, path, lambda name: f"make scale ONLY={name}")


if __name__ == "__main__":
    typer.run(main)
