"""Two tables of runs, beside those of SkyRL's ``llm_as_a_judge_local`` (L4 GPUs), in Markdown.

``python -m examples.gsm8k.tables RUN... --curve reward.svg``: a RUN is SkyRL's output in a file, a
folder of ``examples.grpo``, or ``results.json/NAME`` of its results. Seconds of a step's parts are
medians; rewards are means of a step's samples.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from examples.grpo.plots import plot_rewards
from examples.grpo.record import read_lines

STEPS = (1, 5, 10, 20, 30, 40, 50)
_TIMERS = {
    "generate, with judging": "generate|wait_for_generation_buffer",  # sync, async
    "train": "train_critic_and_policy",
    "weight sync": "sync_weights",
    "step": "step",
}
PUBLISHED = {  # seconds of each part, then the rewards at STEPS
    "sync rule": "10.7 4.7 1.2 21.9 0.016 0.031 0.063 0.188 0.328 0.453 0.594",
    "sync judge": "18.0 5.3 1.2 30.6 0.766 0.859 0.859 0.875 0.953 0.953 1.000",
    "async rule": "11.3 4.8 1.9 13.8 0.000 0.016 0.094 0.141 0.422 0.406 -",
    "async judge": "20.3 5.1 1.9 22.1 0.766 0.859 0.922 0.750 0.922 0.859 0.875",
}


def measured(run: Path) -> tuple[list[list[float]], list[float | None]]:
    """Seconds of each part, and rewards, of a run's steps.

    Raises:
        typer.BadParameter: it has no finished step.
    """
    if run.is_dir() or run.parent.is_file():
        lines = read_lines(run / "steps.jsonl") if run.is_dir() else _steps(run)
        laps = [(x["sample_s"] + x["judge_s"], x["train_s"], x["weights_s"]) for x in lines]
        parts = [*map(list, zip(*laps, strict=True)), [sum(lap) for lap in laps]]
        rewards = [line["reward"] for line in lines]
    else:
        text = run.read_text(encoding="utf-8", errors="replace") if run.is_file() else ""
        finished = "Finished: '(?:{})', time cost: ([0-9.]+)s"
        parts = [
            [float(seconds) for seconds in re.findall(finished.format(timer), text)]
            for timer in _TIMERS.values()
        ]
        rewards = [float(mean) for mean in re.findall(r"reward/avg_raw_reward: ([-0-9.e]+)", text)]
    if not rewards:
        raise typer.BadParameter(
            f"{run}: no finished step; give SkyRL's output (run_judge_sync.sh 2>&1 | tee FILE), a "
            "folder of grpo-out, or results.json/NAME"
        )
    return parts, rewards


def _steps(run: Path) -> list[dict[str, Any]]:
    runs = json.loads(run.parent.read_text(encoding="utf-8"))["runs"]
    steps: list[dict[str, Any]] = runs.get(run.name, {}).get("steps", [])
    return steps


def column(parts: list[list[float]], rewards: list[float | None]) -> list[str]:
    """A run's figures, as those of ``PUBLISHED``."""
    means = [rewards[step - 1] if step <= len(rewards) else None for step in STEPS]
    seconds = [f"{median(part):.1f}" if part else "-" for part in parts]
    return seconds + ["-" if mean is None else f"{mean:.3f}" for mean in means]


def main(
    runs: Annotated[list[Path], typer.Argument(help="SkyRL's output, or runs of examples.grpo.")],
    curve: Annotated[
        Path | None, typer.Option(help="Draw the rewards of all steps (.svg, .png).")
    ] = None,
) -> None:
    """Print the tables."""
    by_name = {run.name: measured(run) for run in runs}
    columns = {name: figures.split() for name, figures in PUBLISHED.items()}
    columns |= {name: column(*figures) for name, figures in by_name.items()}
    lines = [["seconds per step", *columns], ["---"] * (1 + len(columns))]
    for at, name in enumerate([*_TIMERS, *map(str, STEPS)]):
        if at == len(_TIMERS):
            lines += [[], ["reward at step", *columns], lines[1]]
        lines.append([name, *(figures[at] for figures in columns.values())])
    for line in lines:
        typer.echo(f"| {' | '.join(line)} |" if line else "")
    if curve:
        plot_rewards({name: rewards for name, (_, rewards) in by_name.items()}, curve)


if __name__ == "__main__":
    typer.run(main)
