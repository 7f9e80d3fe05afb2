"""Draw ``virtual``'s figures in scale.json: ``python -m loadtests.scale.pictures``."""

from __future__ import annotations

import json
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deployments.local import ROOT
from loadtests.reports import RESULTS


def main() -> None:
    """Write the pictures of docs/explanation/scale.md."""
    report = json.loads((RESULTS / "scale.json").read_text(encoding="utf-8"))["virtual"]
    mpl.rcParams.update({"svg.hashsalt": "scale", "svg.fonttype": "none", "font.size": 9})
    series: dict[str, dict[int, Any]] = {}
    for name, figures in report["grid"].items():
        of, _, replicas = name.rpartition(", ")
        if replicas.endswith(" replicas"):
            series.setdefault(of, {})[int(replicas.split()[0])] = figures
    for file, field, scale, label in (
        ("rate", "sustained_per_s", 1, "verdicts a second"),
        ("waits", "p95_ms", 1000, "p95 of a verdict, s"),
    ):
        axes = _axes("replicas", f"{label}, at a load of 0.7")
        for name, points in series.items():
            style = "-" if name.startswith("handle") else "--"
            values = [point[field] / scale for point in points.values()]
            axes.plot([*points], values, style, marker=".", label=name)
        axes.set(xscale="log", yscale="log")
        _save(axes, file)
    axes = _axes("seconds", "verdicts a second, of the most")
    for name, figures in report["faults"].items():
        rates = figures["verdicts_per_s"]
        axes.plot([5 * n for n in range(len(rates))], [r / max(rates) for r in rates], label=name)
    _save(axes, "faults")


def _axes(x: str, y: str) -> Axes:
    axes: Axes = Figure(figsize=(7, 3.5), layout="constrained").subplots()
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return axes


def _save(axes: Axes, name: str) -> None:
    axes.legend(fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    path = ROOT / "docs" / "explanation" / f"scale-{name}.svg"
    axes.figure.savefig(path, metadata={"Date": None})  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
