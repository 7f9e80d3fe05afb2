"""Draws a page of plots, or the rewards alone, from finished or unfinished runs."""

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


def plot(runs: dict[str, Run], path: Path) -> None:
    """Draw a page of the runs of ``results.json``."""
    from matplotlib.figure import Figure

    colours = {name: f"C{place}" for place, name in enumerate(runs)}
    figure = Figure(figsize=(12, 13), layout="constrained")
    axes = figure.subplots(3, 2)
    failing = {name: run for name, run in runs.items() if run["settings"]["failing"]}
    rewards = {n: _column(run, "reward") for n, run in runs.items() if n not in failing}
    _rewards(axes[0, 0], rewards, colours)
    _seconds(axes[0, 1], runs)
    _held_out(axes[1, 0], runs, colours, "by_value")
    _held_out(axes[1, 1], runs, colours, "by_format")
    _mistakes(axes[2, 0], runs)
    _failures(axes[2, 1], runs, failing, colours)
    figure.savefig(path, dpi=110)


def plot_rewards(rewards: dict[str, list[float | None]], path: Path) -> None:
    """Draw the mean rewards of runs' steps, by the runs' names."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    _rewards(figure.subplots(), rewards, {name: f"C{place}" for place, name in enumerate(rewards)})
    figure.savefig(path)


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


def _rewards(axes: Any, rewards: dict[str, list[float | None]], colours: dict[str, str]) -> None:
    for name, means in rewards.items():
        _curve(axes, name, colours[name], means, name)
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
        evaluations = run["evaluations"]
        rates = [evaluation[kind] for evaluation in evaluations]
        intervals = [evaluation[f"{kind}_interval"] for evaluation in evaluations]
        below = [rate - low for rate, (low, _) in zip(rates, intervals, strict=True)]
        above = [high - rate for rate, (_, high) in zip(rates, intervals, strict=True)]
        # So that the bars stand apart.
        steps = [evaluation["step"] + 0.4 * place for evaluation in evaluations]
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
