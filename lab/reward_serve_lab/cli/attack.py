"""``reward-serve attack``: test a judge with adversarial responses."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from reward_serve.cli.console import App, Url, client_for
from reward_serve.criteria import Criterion, Rubric
from reward_serve.lines import OWNER_ONLY
from reward_serve.schema import hint
from reward_serve_lab.attacks.family import Attack
from reward_serve_lab.attacks.problems import GENERIC_QUESTION
from reward_serve_lab.attacks.programs import hostile_programs
from reward_serve_lab.attacks.report import accepted_table, failings, family_table, report_of
from reward_serve_lab.attacks.suite import crossed, read_attacks
from reward_serve_lab.cli import options
from reward_serve_lab.cli.options import Mode, Model, Out, Template, console, progress
from reward_serve_lab.evaluation.bulk import Row, Run, score_with_progress
from reward_serve_lab.evaluation.report import first_reasons
from reward_serve_lab.evaluation.tables import shown_text

MOST_LISTED = 10
REFERENCES = 3
"""References per attack text."""

Seed = Annotated[int, typer.Option(help="Seed of the suite; each seed gives other attacks.")]
FamilyNames = Annotated[
    list[str] | None,
    typer.Option(help="Send this family of the suite only; repeat the option for several."),
]
Programs = Annotated[
    bool,
    typer.Option(
        "--programs", help="Send hostile programs instead, to a model with verifier: code."
    ),
]
Flat = Annotated[
    bool,
    typer.Option("--flat", help="Send conversations as one text in question and response."),
]
Sample = Annotated[
    int | None, typer.Option(min=1, help="Number of random rows of the suite; default: all.")
]
Data = Annotated[
    Path | None,
    typer.Option(help="More attacks: JSON lines with family, reference, and response or messages."),
]
MaxFalseAccepts = Annotated[
    float, typer.Option(min=0, max=1, help="Maximum fraction of scored rows that may be accepted.")
]
RubricFile = Annotated[
    Path | None, typer.Option(help="Test this rubric, a YAML file of criteria, instead.")
]
Question = Annotated[str, typer.Option(help="With --rubric: the task that responses are to do.")]


def attack(
    url: Url = None,
    app: App = None,
    model: Model = None,
    template: Template = None,
    mode: Mode = None,
    family: FamilyNames = None,
    programs: Programs = False,
    flat: Flat = False,
    seed: Seed = 0,
    sample: Sample = None,
    data: Data = None,
    max_false_accepts: MaxFalseAccepts = 0.0,
    out: Out = None,
    rubric: RubricFile = None,
    question: Question = GENERIC_QUESTION,
) -> None:
    """Test a deployed judge with responses that deserve 0; exit 1 if it accepts any.

    Also exits 1 if more than 1% of the rows got no score. With --rubric, print what responses that
    do nothing earn by these criteria; exit 1 if one earns more than 0, or has no score.
    """
    options.check_outputs(out)
    settings = options.settings_of(model, template, mode)
    if rubric is not None:
        criteria = _criteria(rubric)
        idle = _idle_responses(criteria, question)
        asked = {
            "question": question,
            "rubric": [criterion.model_dump(mode="json") for criterion in criteria],
        }
        rows = [Row(n, {"response": text, **asked}) for n, text in enumerate(idle.values(), 1)]
        _report_rubric(criteria, idle, _scored(url, app, rows, settings))
        return
    with tempfile.TemporaryDirectory() as folder:  # which no program may read
        suite = hostile_programs(seed, Path(folder)) if programs else crossed(seed, REFERENCES)
        attacks = sampled(suite, seed, family, sample)
        attacks += options.read_file(data, read_attacks) if data else []
        if flat:
            attacks = [attack.flat if attack.messages else attack for attack in attacks]
        run = _scored(url, app, rows_of(attacks), settings)
    _report(attacks, run, max_false_accepts, out, {"seed": seed, "references": REFERENCES})


def _scored(url: str | None, app: str | None, rows: list[Row], settings: dict[str, Any]) -> Run:
    with options.needing_the_service():
        client = client_for(url, app)
        return score_with_progress(progress, client, rows, settings, title="attacking")


def _criteria(file: Path) -> list[Criterion]:
    try:
        return Rubric.validate_python(yaml.safe_load(file.read_bytes()))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise typer.BadParameter(f"{file}: {error}; see reward-serve rubric check") from None


def _idle_responses(criteria: list[Criterion], question: str) -> dict[str, str]:
    """Responses that do nothing of what is asked, by what they are."""
    words = re.findall(r"\w+", " ".join(criterion.text for criterion in criteria))
    return {
        "empty": "",
        "a full stop": ".",
        "keywords": " ".join(dict.fromkeys(words)),
        "the question": question,
    }


def _report_rubric(criteria: list[Criterion], names: Iterable[str], run: Run) -> None:
    """Print what each response earns; exit 1 if one earns anything, or has no score."""
    table = Table("response", "earns", *(shown_text(criterion.name) for criterion in criteria))
    met: set[str] = set()
    for name, result in zip(names, run.results, strict=True):
        parts = result.components or {}
        scores = {
            criterion.name: parts[criterion.name].score
            for criterion in criteria
            if criterion.name in parts
        }
        met.update(criterion for criterion, score in scores.items() if score != 0)
        cells = [result.score, *(scores.get(criterion.name) for criterion in criteria)]
        table.add_row(name, *("-" if score is None else f"{score:.2f}" for score in cells))
    console.print(table)
    options.print_reasons(console, first_reasons(run))
    if all(result.score == 0 for result in run.results):
        return
    never = [
        criterion.name
        for criterion in criteria
        if criterion.weight > 0 and criterion.name not in met
    ]
    remedy = "add a criterion that only a response that does the task meets, with required: true"
    if never:
        remedy = f"none of these responses meets {' or '.join(never)}: set required: true for it"
    console.print(remedy, style="red", markup=False)
    raise typer.Exit(1)


def sampled(
    suite: list[Attack], seed: int, families: list[str] | None, sample: int | None
) -> list[Attack]:
    """The suite's attacks of these families, or a random ``sample`` of them.

    Raises:
        typer.BadParameter: there is no family of such a name.
    """
    names = list(dict.fromkeys(attack.family for attack in suite))
    for name in families or ():
        if name not in names:
            raise typer.BadParameter(f"--family {name!r}: {hint(name, names)}")
    attacks = [attack for attack in suite if attack.family in (families or names)]
    if sample is None or sample >= len(attacks):
        return attacks
    places = random.Random(seed).sample(range(len(attacks)), sample)
    return [attacks[place] for place in sorted(places)]


def rows_of(attacks: list[Attack]) -> list[Row]:
    """The attacks as rows that are labelled wrong."""
    return [Row(line, row.request, correct=False) for line, row in enumerate(attacks, 1)]


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
        with open(out, "w", encoding="utf-8", opener=OWNER_ONLY) as file:
            file.write(json.dumps(data, indent=1, allow_nan=False) + "\n")
    console.print(family_table(report))
    if report["accepted"]:
        console.print(accepted_table(report, MOST_LISTED))
    options.print_reasons(console, report["reasons"])
    for failing in failed:
        console.print(failing, style="red", markup=False)
    if failed:
        raise typer.Exit(1)
