"""On-policy distillation on this machine: the student samples, the served teacher scores.

``python -m examples.distil`` trains, and writes ``NAME.json`` and a figure of its folder's runs.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Annotated, Any

import torch
import typer
import yaml

from deployments.local import APP, READY_TIMEOUT_S, console
from examples.distil.student import Student
from examples.grpo.problems import Split, make
from examples.grpo.record import machine
from reward_serve.cli.console import PLAIN, prepare_with_progress
from reward_serve.cli.file_schema import checked
from reward_serve.cli.launch import deployed, wait_until
from reward_serve.client import connect
from reward_serve.logprobs import MAX_TOP_K

EXAMPLES = """\
Question: Mia has 7 pens and finds 5 more. How many pens does Mia have?
Answer: 7 + 5 = 12. The answer is 12.

Question: A box holds 6 rows of 4 eggs. How many eggs are in the box?
Answer: 6 * 4 = 24. The answer is 24.

Question: Omar had 15 coins and spent 8. How many coins are left?
Answer: 15 - 8 = 7. The answer is 7.

"""
"""What the teacher reads before a question, and the student does not."""
PROMPT = "Question: {question}\nAnswer:"
LAPS = ("sample_s", "teacher_s", "learn_s")


@dataclass(frozen=True)
class Settings:
    """A run's settings.

    Attributes:
        top_k: learn from this many of the teacher's likeliest tokens; 0: from the sampled ones.
        steps: optimiser steps.
        prompts: prompts of a step, with one response each.
        max_tokens: maximum length of a response.
        learning_rate: AdamW's.
        evaluate_every: steps between evaluations.
        held_out: questions of an evaluation; they share no template with those of training.
        timeout_s: deadline of a request to the teacher, over all attempts.
        seed: seed of questions and samples.
    """

    top_k: int = 32
    steps: int = 40
    prompts: int = 16
    max_tokens: int = 20
    learning_rate: float = 5e-4
    evaluate_every: int = 10
    held_out: int = 32
    timeout_s: float = 60.0
    seed: int = 0


def main(
    top_k: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_TOP_K,
            help="Learn from this many likeliest tokens; 0: from the sampled ones.",
        ),
    ] = Settings.top_k,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = Settings.steps,
    seed: Annotated[int, typer.Option(help="Seed of questions and samples.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("distil-out"),
) -> None:
    """Distil, and draw the student's distance to the teacher."""
    settings = Settings(top_k=top_k, steps=steps, seed=seed)
    folder = prepare_with_progress(console, adapter=None)
    out.mkdir(parents=True, exist_ok=True)
    file = out / (f"top-{top_k}.json" if top_k else "sampled.json")
    with served(settings.timeout_s) as teacher:
        student = Student(folder, settings.learning_rate, seed)
        # A run that is interrupted keeps what it has evaluated.
        for record in train(settings, student, teacher):
            file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            plot(out)


@contextmanager
def served(timeout_s: float) -> Iterator[Any]:
    """A client of the teacher, which is deployed during the block."""
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    text = Path(__file__).with_name("teacher.yaml").read_text(encoding="utf-8")
    file = checked(yaml.safe_load(text))
    with deployed(file, None, console):
        wait_until(lambda: True, console, file.names, READY_TIMEOUT_S)
        yield connect(app=APP, on_failure="none", timeout_s=timeout_s)


def train(settings: Settings, student: Student, teacher: Any) -> Iterator[dict[str, Any]]:
    """Distil the teacher, a client of reward_serve; yields the record at each evaluation.

    Raises:
        SystemExit: the teacher scored no response of a step.
    """
    began, steps, evaluations = time.perf_counter(), list[Any](), list[Any]()
    examples = student.tokenizer.encode(EXAMPLES)

    def prompts_of(split: Split, count: int) -> list[list[int]]:
        problems = make(split, count, settings.seed)
        Random(settings.seed).shuffle(problems)
        texts = [PROMPT.format(question=problem.question) for problem in problems]
        return [student.tokenizer.encode(text) for text in texts]

    questions = prompts_of("train", settings.steps * settings.prompts)
    held_out = prompts_of("held_out", settings.held_out)
    while True:
        step = len(steps)
        if step % settings.evaluate_every == 0 or step == settings.steps:
            torch.manual_seed(settings.seed)
            responses = student.sample(held_out, settings.max_tokens)
            distances = student.reverse_kl(examples, held_out, responses)
            samples = [student.tokenizer.decode(response) for response in responses[:4]]
            line = per_token(distances, list(map(len, responses)))
            evaluations.append({"step": step, **line, "samples": samples})
            console.print(json.dumps(evaluations[-1]), **PLAIN)
            yield {
                "settings": asdict(settings),
                "machine": machine(),
                "run_s": round(time.perf_counter() - began),
                "teacher_share": teacher_share(steps),
                "absent": sum((line["absent"] for line in steps), Counter[str]()),
                "evaluations": evaluations,
                "steps": steps,
            }
        if step == settings.steps:
            break
        torch.manual_seed(settings.seed + step + 1)
        prompts = questions[step * settings.prompts :][: settings.prompts]
        times = [time.perf_counter()]
        responses = student.sample(prompts, settings.max_tokens)
        times.append(time.perf_counter())
        results = teacher.logprobs(
            [
                {
                    "token_ids": [*examples, *prompt, *response],
                    "start": len(examples) + len(prompt),
                    "top_k": settings.top_k,
                }
                for prompt, response in zip(prompts, responses, strict=True)
            ]
        )
        times.append(time.perf_counter())
        absent = [result for result in results if result.logprobs is None]
        if len(absent) == len(results):
            raise SystemExit(f"step {step}: the teacher scored no response: {absent[0].reason}")
        reward = student.learn(prompts, responses, results)
        times.append(time.perf_counter())
        laps = (round(after - before, 2) for before, after in pairwise(times))
        figures = {"step": step, "reward": round(reward, 4), "tokens": sum(map(len, responses))}
        absences = Counter(result.status.value for result in absent)
        steps.append({**figures, "absent": absences, **dict(zip(LAPS, laps, strict=True))})
        console.print(json.dumps(steps[-1]), **PLAIN)


def teacher_share(steps: list[dict[str, Any]]) -> float | None:
    """The median share of a step that its calls of the teacher take; None without a step."""
    shares = [line["teacher_s"] / sum(line[lap] for lap in LAPS) for line in steps]
    return round(median(shares), 3) if shares else None


def per_token(distances: list[float], tokens: list[int]) -> dict[str, float]:
    """The distance of a token over all responses, with the margin of its 95% interval."""
    mean = sum(distances) / sum(tokens)
    squares = ((d - mean * n) ** 2 for d, n in zip(distances, tokens, strict=True))
    margin = 1.96 * math.sqrt(sum(squares)) / sum(tokens)
    length = sum(tokens) / len(tokens)
    return {"reverse_kl": round(mean, 4), "margin": round(margin, 4), "tokens": round(length, 1)}


def plot(folder: Path) -> None:
    """Draw ``distance.png``: the distance to the teacher in each run of the folder."""
    from matplotlib.figure import Figure

    runs = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, run in runs.items():
        steps, means, margins = (
            [line[key] for line in run["evaluations"]] for key in ("step", "reverse_kl", "margin")
        )
        axes.errorbar(steps, means, margins, marker="o", capsize=3, label=name)
    axes.set(title="reverse KL per token, held-out questions", xlabel="step", ylabel="nats")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(folder / "distance.png", dpi=110)


if __name__ == "__main__":
    typer.run(main)
