"""Trains the bundled judge's adapter: ``python -m reward_serve_judge.training --data train.jsonl``.

An interrupted run resumes from the checkpoint in the output folder.
"""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from reward_serve.cli.console import prepare_with_progress
from reward_serve_judge.training.recipe import Recipe

if TYPE_CHECKING:
    from reward_serve_judge.training.responses import Material
    from reward_serve_judge.training.train import Trainer

console = Console()
_TASKS = 40  # answers of each of reasoning-gym's tasks
_MINUTES = 52.0  # the rest of an hour is for loading, evaluation and slower cores
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # from glibc's malloc.h


def main(
    data: Annotated[
        str, typer.Option(help="GSM8K train: JSONL file of question and answer, or hub id.")
    ] = "openai/gsm8k",
    out: Annotated[Path, typer.Option(help="Folder for checkpoint, adapter and card.")] = Path(
        "judge-adapter"
    ),
    examples: Annotated[
        int | None,
        typer.Option(
            min=64,
            help=f"Number of examples; default: what fits into an hour, at most {Recipe.examples}.",
        ),
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="Adapter to start from, such as the shipped one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of data, order and initial weights.")] = 0,
    held_out: Annotated[int, typer.Option(min=1, help="Number of evaluation examples.")] = 1_000,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train, evaluate on held-out problems, and write the adapter and its model card."""
    out.mkdir(parents=True, exist_ok=True)
    base = prepare_with_progress(console, adapter=None)
    console.print("loading torch and the model")
    import torch

    from reward_serve_judge.training.answers.tasks import HELD_OUT, TRAINED, read_tasks
    from reward_serve_judge.training.card import write_card
    from reward_serve_judge.training.problems import read_problems
    from reward_serve_judge.training.responses import Material
    from reward_serve_judge.training.train import Trainer, affordable, evaluate

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    _keep_freed_memory()
    problems, others = read_problems(data)
    with console.status("making reasoning-gym's tasks"):
        material = Material(problems, read_tasks(TRAINED, _TASKS, seed))
        kept_back = Material(others, read_tasks([*chain(*HELD_OUT.values())], _TASKS, seed))
    recipe = Recipe(
        examples=examples or Recipe.examples, seed=seed, start=start.name if start else ""
    )
    trainer = Trainer(recipe, base, device)
    if start:
        trainer.load_adapter(start)
    if not trainer.resume(out, any_length=examples is None) and examples is None:
        trainer.recipe = replace(trainer.recipe, examples=affordable(trainer, material, _MINUTES))
        console.print(f"{trainer.recipe.examples} examples; set --examples to change the number")
    take_steps(trainer, material, out)
    if start:
        trainer.average(start)
    trainer.save_adapter(out / "adapter")
    with console.status(f"evaluating on {held_out} held-out examples"):
        report: dict[str, Any] = evaluate(trainer, kept_back, held_out)
    report["minutes"] = round(trainer.seconds / 60, 1)
    (out / "metrics.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    write_card(out / "adapter", trainer.recipe, trainer.template, data, report)
    console.print_json(data=report)
    console.print(f"adapter: {out / 'adapter'}", markup=False, soft_wrap=True)


def take_steps(trainer: Trainer, material: Material, out: Path) -> None:
    """Take the remaining steps of the recipe, with a checkpoint every 50 steps."""
    from reward_serve_judge.training.train import batches

    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console,
    ) as progress:  # fmt: skip
        task = progress.add_task("training", total=trainer.recipe.steps, completed=trainer.step)
        loss = accuracy = None
        for batch in batches(trainer, material):
            now = trainer.train(batch)
            loss = now[0] if loss is None else 0.9 * loss + 0.1 * now[0]
            accuracy = now[1] if accuracy is None else 0.9 * accuracy + 0.1 * now[1]
            progress.update(
                task, advance=1, description=f"loss {loss:.3f}, accuracy {accuracy:.1%}"
            )
            if trainer.step % 10 == 0 and not console.is_terminal:
                console.print(f"step {trainer.step}: loss {loss:.3f}, accuracy {accuracy:.1%}")
            if trainer.step % 50 == 0:
                trainer.save(out)
    trainer.save(out)


def _keep_freed_memory() -> None:
    """Have glibc keep freed memory; page faults took a fifth of each step on a CPU.

    All threads share one arena, because other arenas return empty heaps to the system.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_ARENA_MAX, 1)


if __name__ == "__main__":
    typer.run(main)
