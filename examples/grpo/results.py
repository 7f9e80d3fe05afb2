"""What the runs of a folder showed, as figures and as one page of plots.

``python -m examples.grpo.results grpo-out``: writes ``results.json`` and ``results.png``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

import typer

from deployments.local import console
from examples.grpo.record import read_lines

LAPS = ("sample_s", "judge_s", "train_s", "weights_s")


def main(out: Annotated[Path, typer.Argument(help="Folder of the runs' folders.")]) -> None:
    """Write results.json and results.png."""
    write(out)


def write(out: Path) -> None:
    """Sum up every run that finished a step."""
    runs = {file.parent.name: summed_up(file.parent) for file in sorted(out.glob("*/steps.jsonl"))}
    (out / "results.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    plot(runs, out / "results.png")
    console.print(f"{out / 'results.json'}, {out / 'results.png'}", markup=False)


def summed_up(folder: Path) -> dict[str, Any]:
    """The figures of a run."""
    steps = read_lines(folder / "steps.jsonl")
    groups = read_lines(folder / "samples.jsonl")
    evaluations = read_lines(folder / "evaluations.jsonl")
    return {
        "settings": json.loads((folder / "run.json").read_text(encoding="utf-8")),
        "steps": [{k: v for k, v in step.items() if k != "state"} for step in steps],
        "evaluations": [
            {
                **{name: one[name] for name in ("step", "by_value", "by_format")},
                "interval": interval(sum(one["right"]), len(one["right"])),
            }
            for one in evaluations
        ],
        "median_s": {lap: median(step[lap] for step in steps) for lap in LAPS},
        "judge_share": fmean(s["judge_s"] / sum(s[lap] for lap in LAPS) for s in steps),
        "verdicts": verdicts(groups),
    }


def verdicts(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The verdicts against the known answers, with every sample on which they differ."""
    samples = [(group, sample) for group in groups for sample in group["samples"]]
    decided = [(g, s) for g, s in samples if s["verdict"] is not None]
    differing = [(g, s) for g, s in decided if (s["verdict"] > 0.5) != s["by_value"]]
    return {
        "samples": len(samples),
        "undecided": len(samples) - len(decided),
        "agreement": 1 - len(differing) / len(decided) if decided else None,
        "false_accepts": sum(not s["by_value"] for _, s in differing),
        "false_rejects": sum(s["by_value"] for _, s in differing),
        "rewarded_wrongly": sum(
            s["reward"] is not None and (s["reward"] > 0.5) != s["by_value"] for _, s in samples
        ),
        "differing": [
            {"step": g["step"], "answer": g["answer"], "text": s["text"], "verdict": s["verdict"]}
            for g, s in differing
        ],
    }


def interval(right: int, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a proportion."""
    z, part = 1.96, right / count
    centre = (part + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(part * (1 - part) / count + z * z / (4 * count**2))
    return round(centre - half, 4), round(centre + half, 4)


def plot(runs: dict[str, dict[str, Any]], path: Path) -> None:
    """Reward, held-out accuracy, the judge's mistakes and seconds of a step, on one page."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, ((reward, held_out), (mistakes, seconds)) = plt.subplots(
        2, 2, figsize=(11, 8), layout="constrained"
    )
    for name, run in runs.items():
        steps = [step["step"] + 1 for step in run["steps"]]
        rewards = [math.nan if s["reward"] is None else s["reward"] for s in run["steps"]]
        reward.plot(steps, rewards, label=name)
        evaluated = [one["step"] for one in run["evaluations"]]
        for kind, style in (("by_value", "-"), ("by_format", ":")):
            held_out.plot(evaluated, [one[kind] for one in run["evaluations"]], style, label=name)
        if run["settings"]["reward"] == "judge":
            wrong = [one["step"] + 1 for one in run["verdicts"]["differing"]]
            mistakes.plot(steps, [wrong.count(step) for step in steps], label=name)
    below = [0.0] * len(runs)
    for lap in LAPS:
        heights = [run["median_s"][lap] for run in runs.values()]
        seconds.bar(list(runs), heights, bottom=below, label=lap[:-2])
        below = [low + height for low, height in zip(below, heights, strict=True)]
    reward.set(title="mean reward of a step", xlabel="step", ylim=(-0.05, 1.05))
    held_out.set(title="held-out: by value (solid), by format (dotted)", xlabel="step")
    mistakes.set(title="verdicts that differ from the known answer", xlabel="step")
    seconds.set(title="median seconds of a step")
    seconds.tick_params(axis="x", labelrotation=30)
    for axes in (reward, mistakes, seconds):
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    typer.run(main)
