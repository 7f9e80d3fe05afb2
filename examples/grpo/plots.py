"""Draws a page of plots from finished or unfinished runs."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

Run = dict[str, Any]

LAPS = {
    "sample_s": "sample",
    "judge_s": "judge, beyond sampling",
    "train_s": "train",
    "weights_s": "weights",
}
"""The timed parts of a step, with their labels."""
_SMOOTHED = 4  # steps on either side
_MODES = ("rule-sync", "judge-sync", "rule-ahead", "judge-ahead")
_REWARDED_AT = (1, 10, 30, 50)


def plot(results: dict[str, Any], path: Path) -> None:
    """Draw the page.

    Args:
        results: content of ``results.json``.
        path: path of the image.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    runs = results["runs"]
    colours = {name: f"C{place}" for place, name in enumerate(runs)}
    figure, axes = plt.subplots(4, 2, figsize=(12, 17), layout="constrained")
    failing = {name: run for name, run in runs.items() if run["settings"]["failing"]}
    _rewards(axes[0, 0], {n: r for n, r in runs.items() if n not in failing}, colours)
    _seconds(axes[0, 1], runs)
    _held_out(axes[1, 0], runs, colours, "by_value")
    _held_out(axes[1, 1], runs, colours, "by_format")
    _mistakes(axes[2, 0], runs)
    _failures(axes[2, 1], runs, failing, colours)
    _step_table(axes[3, 0], results)
    _reward_table(axes[3, 1], results)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def smoothed(values: list[float]) -> list[float]:
    """Means over up to nine steps around each, ignoring NaN."""
    means = []
    for place in range(len(values)):
        around = values[max(0, place - _SMOOTHED) : place + _SMOOTHED + 1]
        known = [value for value in around if not math.isnan(value)]
        means.append(fmean(known) if known else math.nan)
    return means


def _curve(axes: Any, name: str, colour: str, values: list[float | None], label: str) -> None:
    known = [math.nan if value is None else value for value in values]
    steps = range(1, len(known) + 1)
    axes.plot(steps, known, color=colour, alpha=0.25, linewidth=1)
    axes.plot(steps, smoothed(known), color=colour, label=label or name)


def _column(run: Run, name: str) -> list[float | None]:
    return [step[name] for step in run["steps"]]


def _rewards(axes: Any, runs: dict[str, Run], colours: dict[str, str]) -> None:
    for name, run in runs.items():
        _curve(axes, name, colours[name], _column(run, "reward"), name)
    axes.set(title="mean reward per step, raw and smoothed", xlabel="step", ylim=(-0.03, 1.03))
    axes.legend(fontsize="small")


def _seconds(axes: Any, runs: dict[str, Run]) -> None:
    below = [0.0] * len(runs)
    for lap, label in LAPS.items():
        heights = [run["seconds"][lap] for run in runs.values()]
        axes.bar(list(runs), heights, bottom=below, label=label)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set(title="seconds per step (medians)")
    axes.tick_params(axis="x", labelrotation=30)
    axes.legend(fontsize="small")


def _held_out(axes: Any, runs: dict[str, Run], colours: dict[str, str], kind: str) -> None:
    for place, (name, run) in enumerate(runs.items()):
        found = run["evaluations"]
        rates = [one[kind] for one in found]
        intervals = [one[f"{kind}_interval"] for one in found]
        below = [rate - low for rate, (low, _) in zip(rates, intervals, strict=True)]
        above = [high - rate for rate, (_, high) in zip(rates, intervals, strict=True)]
        steps = [one["step"] + 0.4 * place for one in found]  # so that the bars stand apart
        axes.errorbar(
            steps, rates, (below, above), color=colours[name], marker="o", capsize=3, label=name
        )
    basis = "value" if kind == "by_value" else "SkyRL's strict format"
    title = f"held-out accuracy by {basis}, 95% intervals"
    axes.set(title=title, xlabel="step", ylim=(-0.03, 1.03))
    axes.legend(fontsize="small")


def _mistakes(axes: Any, runs: dict[str, Run]) -> None:
    """Each step's false accepts as bars upwards, false rejects downwards."""
    judged = {name: run for name, run in runs.items() if run["settings"]["reward"] == "judge"}
    if judged:
        length = max(len(run["steps"]) for run in judged.values())
        for kind, sign, colour in (("false_accepts", 1, "C3"), ("false_rejects", -1, "C0")):
            below = [0] * length
            for place, run in enumerate(judged.values()):
                counts = run["verdicts"][f"{kind}_by_step"]
                heights = [sign * count for count in counts] + [0] * (length - len(counts))
                steps = range(1, length + 1)
                label = kind.replace("_", " ") if place == 0 else None
                axes.bar(steps, heights, bottom=below, color=colour, label=label)
                below = [low + high for low, high in zip(below, heights, strict=True)]
        axes.legend(fontsize="small")
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set(title="judge mistakes per step, all judged runs", xlabel="step")


def _failures(
    axes: Any, runs: dict[str, Run], failing: dict[str, Run], colours: dict[str, str]
) -> None:
    """Share of samples that were right, whatever reward they received."""
    beside = {name: runs[name] for name in ("judge-sync",) if name in runs}
    for name, run in (beside | failing).items():
        wrong = run["verdicts"]["rewarded_wrongly"]
        label = f"{name}: {wrong} of {run['verdicts']['samples']} rewarded wrongly"
        _curve(axes, name, colours[name], _column(run, "by_value"), label)
    axes.set(
        title="one verdict in five fails: samples right by value",
        xlabel="step",
        ylim=(-0.03, 1.03),
    )
    if axes.lines:
        axes.legend(fontsize="small")


def _step_table(axes: Any, results: dict[str, Any]) -> None:
    """Seconds per step, published and ours."""
    rows = []
    for name in _MODES:
        theirs, run = results["published"][name], results["runs"].get(name)
        rows.append([name, "published", *(f"{theirs[k]:.1f}" for k in theirs), ""])
        if run:
            own = run["seconds"]
            parts = (own["sample_s"] + own["judge_s"], own["train_s"], own["weights_s"])
            figures = [f"{value:.1f}" for value in (*parts, own["step_s"])]
            rows.append([name, "here", *figures, f"{own['judge_added']:.0%}"])
    published = results["published"]
    for mode in ("sync", "ahead"):
        rule, judge = (published[f"{kind}-{mode}"]["step"] for kind in ("rule", "judge"))
        row = next(row for row in rows if row[:2] == [f"judge-{mode}", "published"])
        row[-1] = f"{judge / rule - 1:.0%}"
    head = ["run", "", "generate,\njudge", "train", "weights", "step", "judge\nadds"]
    _table(axes, "seconds per step, and what the judge adds", head, rows)


def _reward_table(axes: Any, results: dict[str, Any]) -> None:
    """Mean reward at the published steps, published and ours."""
    rows = []
    for name, theirs in results["published"]["rewards"].items():
        rows.append([name, "published", *(f"{theirs[step]:.3f}" for step in _REWARDED_AT)])
        if name in results["runs"]:
            own = _column(results["runs"][name], "reward")
            found = [own[step - 1] if step <= len(own) else None for step in _REWARDED_AT]
            rows.append([name, "here", *("" if one is None else f"{one:.3f}" for one in found)])
    head = ["run", "", *(f"step {step}" for step in _REWARDED_AT)]
    _table(axes, "mean reward (other policies, other tasks)", head, rows)


def _table(axes: Any, title: str, head: list[str], rows: list[list[str]]) -> None:
    axes.axis("off")
    axes.set_title(title)
    widths = [0.2, 0.16, *([0.64 / (len(head) - 2)] * (len(head) - 2))]
    table = axes.table(rows, colLabels=head, colWidths=widths, loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.5)
