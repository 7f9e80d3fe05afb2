"""Plots a benchmark report on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def plot(report: dict[str, Any], path: Path) -> None:
    """Draw a panel for each benchmark in the report."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = [name for name in sorted(report) if name in _PANELS]
    if not panels:
        return
    rows = (len(panels) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(10, 2.6 * rows), layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, name in zip(axes.flat, panels, strict=False):
        title, unit, log = _PANELS[name]
        if name == "scaling":
            _draw_scaling(axis, report[name]["points"])
        else:
            values = bars(name, report[name])
            axis.barh(list(values)[::-1], list(values.values())[::-1])
        axis.set(title=f"{name}: {title}", xlabel=unit)
        if log:
            axis.set_xscale("log")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_scaling(axis: Any, points: list[dict[str, Any]]) -> None:
    """Draw a line for each batch size, and the roofline."""
    tokens = sorted({point["prompt_tokens"] for point in points})
    rooflines = {point["prompt_tokens"]: point["roofline_per_s"] for point in points}
    axis.plot(tokens, [rooflines[count] for count in tokens], "k--", label="roofline")
    for batch in sorted({point["batch"] for point in points}):
        rates = {p["prompt_tokens"]: p["verdicts_per_s"] for p in points if p["batch"] == batch}
        axis.plot(tokens, [rates[count] for count in tokens], "o-", label=f"{batch} at a time")
    axis.set(yscale="log", ylabel="verdicts/s")
    axis.legend(fontsize="small")


def bars(name: str, measured: dict[str, Any]) -> dict[str, float]:
    """The labels and values of a benchmark's panel."""
    if name == "P1":
        ways = ("label", "generate_batched", "old")
        return {way: measured[way]["answers_per_s"] for way in ways}
    if name == "P2":
        return {way: each["median"] for way, each in measured["verdicts_per_s"].items()}
    if name == "P3":
        return {
            f"{way}, {concurrency}": measured[concurrency][way]["per_s"]["median"]
            for concurrency in ("1", "32", "256")
            for way in ("raw", "handle", "http")
        }
    if name == "P4":
        cases = measured["stand-in, 8 replicas"]
        return {
            f"{way}, {case}": figures["answers_per_s"]["median"]
            for case in ("short, apart", "long, apart")
            for way, figures in cases[case].items()
        }
    if name == "P6":
        return {"bare": measured["bare_s"]["median"], "service": measured["service_s"]["median"]}
    return {"cache on": measured["answers_per_s"], "cache off": measured["answers_per_s_off"]}


_PANELS = {
    "P1": ("label mode and the old path", "answers/s", True),
    "P2": ("the same prompts, each way", "verdicts/s", False),
    "P3": ("around a model that answers at once", "items/s", True),
    "P4": ("groups on eight replicas (stand-ins)", "answers/s", False),
    "P6": ("start to first verdict", "s", False),
    "scaling": ("the engine and its roofline", "prompt tokens", True),
    "cache": ("repeated requests", "answers/s", False),
}
