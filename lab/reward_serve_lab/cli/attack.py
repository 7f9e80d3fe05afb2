"""``reward-serve attack``: test a judge with adversarial responses."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from reward_serve.cli.console import App, Url, client_for
from reward_serve.client import Client
from reward_serve.client.transport import ServiceTransport, ServiceUnavailableError
from reward_serve.rubrics import Rubric
from reward_serve_lab.attacks.data import read_attacks
from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.attacks.problems import GENERIC_QUESTION
from reward_serve_lab.attacks.report import failings, report_of
from reward_serve_lab.attacks.suite import crossed
from reward_serve_lab.attacks.tables import accepted_table, family_table
from reward_serve_lab.cli.evaluate import Model, ModeName, check_outputs
from reward_serve_lab.evaluation.bulk import Row, Run
from reward_serve_lab.evaluation.json_lines import LinesError
from reward_serve_lab.evaluation.runs import score_with_progress
from reward_serve_lab.evaluation.tables import shown_text

TIMEOUT_S = 300.0
MOST_LISTED = 10

progress = Console(stderr=True)
console = Console()

Template = Annotated[str | None, typer.Option(help="Judging template.")]
Mode = Annotated[ModeName | None, typer.Option(help="Mode of the judge.")]
Seed = Annotated[int, typer.Option(help="Seed of the suite; each seed gives other attacks.")]
References = Annotated[int, typer.Option(min=1, max=20, help="References per attack text.")]
Sample = Annotated[
    int | None, typer.Option(min=1, help="Number of random rows of the suite; default: all.")
]
Data = Annotated[
    Path | None,
    typer.Option(help="More attacks: a file of JSON lines with family, response, reference."),
]
MaxFalseAccepts = Annotated[
    float, typer.Option(min=0, max=1, help="Maximum fraction of scored rows that may be accepted.")
]
Out = Annotated[Path | None, typer.Option(help="Write the report to this JSON file.")]

RubricFile = Annotated[
    Path | None, typer.Option(help="Test this rubric, a YAML file of criteria, instead.")
]
Question = Annotated[str, typer.Option(help="With --rubric: the task that responses are to do.")]
MaxEarned = Annotated[
    float, typer.Option(min=0, max=1, help="With --rubric: the most that doing nothing may earn.")
]


def attack(
    url: Url = None,
    app: App = None,
    model: Model = None,
    template: Template = None,
    mode: Mode = None,
    seed: Seed = 0,
    references: References = 3,
    sample: Sample = None,
    data: Data = None,
    max_false_accepts: MaxFalseAccepts = 0.0,
    out: Out = None,
    rubric: RubricFile = None,
    question: Question = GENERIC_QUESTION,
    max_earned: MaxEarned = 0.0,
) -> None:
    """Test a deployed judge with responses that deserve 0; exit 1 if it accepts any.

    Also exits 1 if more than 1% of the rows got no score. With --rubric, print what responses that
    do nothing earn by these criteria; exit 1 if one earns more than --max-earned, or has no score.
    """
    check_outputs(out)
    if rubric is not None:
        raise typer.Exit(_attack_rubric(rubric, question, max_earned, client_for(url, app), model))
    attacks = [*_suite(seed, references, sample), *_user_attacks(data)]
    given = {"model": model, "template": template, "options": {"mode": mode} if mode else None}
    settings = {key: value for key, value in given.items() if value is not None}
    try:
        client = client_for(url, app)
        run = score_with_progress(
            progress, client, _rows(attacks), settings | {"timeout_s": TIMEOUT_S}, title="attacking"
        )
    except ServiceUnavailableError as error:
        progress.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    _report(attacks, run, max_false_accepts, out, {"seed": seed, "references": references})


def _attack_rubric(
    file: Path, question: str, max_earned: float, transport: ServiceTransport, model: str | None
) -> int:
    """Print what responses that do nothing earn by a rubric; returns the exit code."""
    try:
        criteria = Rubric.validate_python(yaml.safe_load(file.read_bytes()))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise typer.BadParameter(f"{file}: {error}; see reward-serve rubric check") from None
    responses = {
        "empty": "",
        "a full stop": ".",
        "keywords": " ".join(dict.fromkeys(re.findall(r"\w+", " ".join(c.text for c in criteria)))),
        "the question": question,
    }
    fields = {"question": question, "rubric": [c.model_dump(mode="json") for c in criteria]}
    client = Client(transport, on_failure="none", timeout_s=TIMEOUT_S, model=model)
    results = client.score_batch([{"response": text, **fields} for text in responses.values()])
    table = Table("response", "earns", *(shown_text(one.name) for one in criteria))
    earned = {one.name: 0.0 for one in criteria if one.weight > 0}
    for name, result in zip(responses, results, strict=True):
        parts = [(result.components or {}).get(one.name) for one in criteria]
        scores = [None if part is None else part.score for part in parts]
        shown = ["-" if score is None else f"{score:.2f}" for score in (result.score, *scores)]
        table.add_row(name, *shown)
        if result.score is None:
            console.print(
                f"{name}: {result.status.value}: {result.reason}", style="yellow", markup=False
            )
        for one, score in zip(criteria, scores, strict=True):
            if one.name in earned:
                earned[one.name] = max(earned[one.name], 1.0 if score is None else score)
    console.print(table)
    if all(result.score is not None and result.score <= max_earned for result in results):
        return 0
    fulfilled_by_none = [name for name, most in earned.items() if most == 0]
    remedy = (
        f"make {' or '.join(fulfilled_by_none)} required: none of these responses fulfils it"
        if fulfilled_by_none
        else "add a required criterion that only a response that does the task fulfils; each of "
        "the rubric's is fulfilled by one of these"
    )
    console.print(remedy, style="red", markup=False)
    return 1


def _suite(seed: int, references: int, sample: int | None) -> list[Attack]:
    attacks = crossed(seed, references)
    if sample is None or sample >= len(attacks):
        return attacks
    places = random.Random(seed).sample(range(len(attacks)), sample)
    return [attacks[place] for place in sorted(places)]


def _user_attacks(data: Path | None) -> list[Attack]:
    if data is None:
        return []
    try:
        return read_attacks(data)
    except OSError as error:
        raise typer.BadParameter(f"{data}: {error.strerror}") from None
    except LinesError as error:
        raise typer.BadParameter(f"{data}: {error}") from None


def _rows(attacks: list[Attack]) -> list[Row]:
    return [
        Row(
            line,
            {"response": row.response, "reference": row.reference, "question": row.question},
            correct=False,
        )
        for line, row in enumerate(attacks, 1)
    ]


def _report(
    attacks: list[Attack],
    run: Run,
    max_false_accepts: float,
    out: Path | None,
    suite: dict[str, Any],
) -> None:
    report = report_of(attacks, run)
    failed = failings(report, max_false_accepts)
    if out:
        data = {"passed": not failed, "max_false_accepts": max_false_accepts, **suite, **report}
        out.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    console.print(family_table(report))
    if report["accepted"]:
        console.print(accepted_table(report, MOST_LISTED))
    for status, reason in report["reasons"].items():
        line = shown_text(f"{status}, first reason: {reason}")
        console.print(line, style="yellow", markup=False)
    for failing in failed:
        console.print(failing, style="red", markup=False)
    if failed:
        raise typer.Exit(1)
