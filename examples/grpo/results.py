"""Summarises the runs of a folder as figures and a page of plots.

``python -m examples.grpo.results grpo-out`` writes ``results.json``, ``results.png`` and
``mistakes.jsonl``, the samples that the judge got wrong. Unfinished runs are included.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Annotated, Any

import typer

from deployments.local import console
from examples.grpo.plots import LAPS, plot
from examples.grpo.record import read_lines
from examples.grpo.settings import RUNS

COMPILING = 2
"""Number of steps after an engine's start in which it compiles."""
_Z = 1.96


def write(out: Annotated[Path, typer.Argument(help="Parent of the runs' folders.")]) -> None:
    """Write results.json, results.png and mistakes.jsonl of every run with a finished step.

    Raises:
        typer.BadParameter: no run has finished a step.
    """
    folders = [file.parent for file in out.glob("*/steps.jsonl") if read_lines(file)]
    folders.sort(key=lambda folder: (_place(folder.name), folder.name))
    if not folders:
        raise typer.BadParameter(f"{out}: no run in this folder has finished a step")
    runs = {folder.name: summary(folder) for folder in folders}
    by_run = {folder.name: mistakes(read_lines(folder / "samples.jsonl")) for folder in folders}
    for name, run in runs.items():
        run["verdicts"] |= by_step(by_run[name], len(run["steps"]))
    judged = [name for name, run in runs.items() if run["settings"]["reward"] == "judge"]
    groups = [group for name in judged for group in read_lines(out / name / "samples.jsonl")]
    listed = [{"run": name, **mistake} for name in judged for mistake in by_run[name]]
    results = {"runs": runs, "judge": verdicts(groups)}
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    lines = [json.dumps(mistake) + "\n" for mistake in listed]
    (out / "mistakes.jsonl").write_text("".join(lines), encoding="utf-8")
    plot(runs, out / "results.png")
    files = ", ".join(str(out / name) for name in ("results.json", "results.png", "mistakes.jsonl"))
    console.print(files, markup=False)


def summary(folder: Path) -> dict[str, Any]:
    """The figures of a run."""
    steps = read_lines(folder / "steps.jsonl")
    starts = read_lines(folder / "starts.jsonl")
    evaluations = read_lines(folder / "evaluations.jsonl")
    return {
        "settings": json.loads((folder / "run.json").read_text(encoding="utf-8")),
        "starts": starts,
        "steps": [{k: v for k, v in step.items() if k != "state"} for step in steps],
        "evaluations": [_evaluation(evaluation) for evaluation in evaluations],
        "gain": gain(evaluations),
        "seconds": seconds(steps, [start["step"] for start in starts] or [0]),
        "verdicts": verdicts(read_lines(folder / "samples.jsonl")),
    }


def seconds(steps: list[dict[str, Any]], starts: Sequence[int]) -> dict[str, Any]:
    """Medians over steps without compilation; over all steps if there are no others.

    ``judge_share`` is the share of a step spent judging after sampling. ``judge_added`` is that
    time relative to the rest of the step: the increase over a step with a rule.
    """
    compiling = {start + step for start in starts for step in range(COMPILING)}
    timed = [step for step in steps if step["step"] not in compiling] or steps
    whole = [sum(step[lap] for lap in LAPS) for step in timed]
    judged = [(step["judge_s"], total) for step, total in zip(timed, whole, strict=True)]
    return {
        "steps": len(timed),
        **{lap: median(step[lap] for step in timed) for lap in LAPS},
        "step_s": median(whole),
        "judge_share": median(judge / total for judge, total in judged),
        "judge_added": median(judge / (total - judge) for judge, total in judged),
    }


def gain(evaluations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Change of held-out accuracy by value from the first evaluation to the last.

    The interval is that of paired differences, because both evaluations use the same problems.
    """
    if len(evaluations) < 2:
        return None
    first, last = evaluations[0]["right"], evaluations[-1]["right"]
    changes = [after - before for before, after in zip(first, last, strict=True)]
    mean, half = fmean(changes), _Z * stdev(changes) / math.sqrt(len(changes))
    return {"by_value": mean, "interval": [round(mean - half, 4), round(mean + half, 4)]}


def interval(right: int, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a proportion."""
    z, part = _Z, right / count
    centre = (part + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(part * (1 - part) / count + z * z / (4 * count**2))
    return round(centre - half, 4), round(centre + half, 4)


def _evaluation(line: dict[str, Any]) -> dict[str, Any]:
    count = len(line["right"])
    kinds = ("by_value", "by_format")
    return {
        "step": line["step"],
        "problems": count,
        **{kind: line[kind] for kind in kinds},
        **{f"{kind}_interval": interval(round(line[kind] * count), count) for kind in kinds},
    }


def _place(name: str) -> int:
    """Sort key: runs of ``RUNS`` in their order, then all others."""
    return list(RUNS).index(name) if name in RUNS else len(RUNS)


def verdicts(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of a run's verdicts.

    ``undecided`` counts samples without a verdict. ``rewarded_wrongly`` counts rewards that differ
    from the known answer, whether by a wrong verdict or by a failure counted as 0.0.
    """
    samples = [sample for group in groups for sample in group["samples"]]
    decided = [sample for sample in samples if sample["verdict"] is not None]
    wrong = [sample for sample in decided if _differs(sample["verdict"], sample)]
    return {
        "samples": len(samples),
        "undecided": len(samples) - len(decided),
        "agreement": 1 - len(wrong) / len(decided) if decided else None,
        "false_accepts": sum(not sample["by_value"] for sample in wrong),
        "false_rejects": sum(sample["by_value"] for sample in wrong),
        "unrewarded": sum(sample["reward"] is None for sample in samples),
        "rewarded_wrongly": sum(_differs(sample["reward"], sample) for sample in samples),
    }


def mistakes(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every sample whose verdict differs from the known answer, with its question."""
    return [
        {
            "step": group["step"],
            "question": group["question"],
            "response": sample["text"],
            "answer": group["answer"],
            "verdict": sample["verdict"],
        }
        for group in groups
        for sample in group["samples"]
        if _differs(sample["verdict"], sample)
    ]


def by_step(wrong: list[dict[str, Any]], steps: int) -> dict[str, list[int]]:
    """The number of false accepts and false rejects at each step."""
    counted = Counter((mistake["verdict"] > 0.5, mistake["step"]) for mistake in wrong)
    return {
        "false_accepts_by_step": [counted[True, step] for step in range(steps)],
        "false_rejects_by_step": [counted[False, step] for step in range(steps)],
    }


def _differs(score: float | None, sample: dict[str, Any]) -> bool:
    return score is not None and (score > 0.5) != sample["by_value"]


if __name__ == "__main__":
    typer.run(write)
