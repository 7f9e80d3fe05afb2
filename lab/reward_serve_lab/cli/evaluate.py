"""``reward-serve eval``: measure a judge against labels."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import Progress

from reward_serve.cli.console import App, SafeConsole, Url, client_for
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.lines import OWNER_ONLY
from reward_serve_lab.evaluation.bulk import Row, Run, read_rows, score_with_progress, write_results
from reward_serve_lab.evaluation.html import write_page
from reward_serve_lab.evaluation.json_lines import LinesError
from reward_serve_lab.evaluation.metrics import reliability_of
from reward_serve_lab.evaluation.pairs import (
    Pair,
    pairs_table,
    read_pairs,
    report_of_pairs,
    score_pairs,
)
from reward_serve_lab.evaluation.report import disagreements as disagreeing
from reward_serve_lab.evaluation.report import report_of
from reward_serve_lab.evaluation.stability import (
    Earlier,
    Variant,
    compared,
    earlier_result,
    read_results,
    score_again,
)
from reward_serve_lab.evaluation.tables import (
    advice,
    curves_figure,
    difference,
    disagreement_table,
    group_tables,
    metrics_table,
    shown_text,
)

progress = SafeConsole(stderr=True)
console = SafeConsole()


class ModeName(StrEnum):
    """How a judge answers; an enum, since Typer accepts no list of literals."""

    LABEL = "label"
    GENERATE = "generate"


RowsFile = Annotated[
    Path,
    typer.Argument(
        help="JSON lines with question, reference, response or messages, correct, format, id, "
        "rubric, criteria."
    ),
]
Pairs = Annotated[
    bool,
    typer.Option(
        "--pairs",
        help="Rows are pairs: question, responses (two), preferred (0 or 1). Reports how often the "
        "judge prefers that response.",
    ),
]
Model = Annotated[str | None, typer.Option(help="Name of the reward model.")]
Templates = Annotated[
    list[str] | None, typer.Option(help="Judging template; repeat the option to compare several.")
]
Modes = Annotated[
    list[ModeName] | None, typer.Option(help="Mode of the judge; repeat the option to compare.")
]
Sample = Annotated[int | None, typer.Option(min=1, help="Number of random rows; default: all.")]
Seed = Annotated[int, typer.Option(help="Seed of --sample.")]
Stability = Annotated[
    bool,
    typer.Option("--stability", help="Score the rows again, also in batches of 1, 8 and 64."),
]
Margin = Annotated[
    float,
    typer.Option(min=0, max=0.5, help="Do not count flips of rows this close to probability 0.5."),
]
MaxError = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Name the judge.min_probability with this share of errors."),
]
Compare = Annotated[Path | None, typer.Option(help="Compare with the --results of an earlier run.")]
Results = Annotated[
    Path | None, typer.Option(help="Write each row's result to this file, as JSON lines.")
]
Out = Annotated[Path | None, typer.Option(help="Write the report to this JSON file.")]
Plot = Annotated[Path | None, typer.Option(help="Plot reliability and coverage in this PNG file.")]
Html = Annotated[Path | None, typer.Option(help="Write a page that opens offline to this file.")]
Disagreements = Annotated[int, typer.Option(min=0, help="Number of disagreements to list.")]
Count = Annotated[int, typer.Option(min=1)]
Timeout = Annotated[float, typer.Option(min=0.1, help="Deadline of each row, in seconds.")]


def evaluate(
    file: RowsFile,
    url: Url = None,
    app: App = None,
    pairs: Pairs = False,
    model: Model = None,
    template: Templates = None,
    mode: Modes = None,
    sample: Sample = None,
    seed: Seed = 0,
    stability: Stability = False,
    compare: Compare = None,
    margin: Margin = 0.02,
    max_error: MaxError = None,
    results: Results = None,
    out: Out = None,
    plot: Plot = None,
    html: Html = None,
    disagreements: Disagreements = 10,
    batch_size: Count = 16,
    batches_in_flight: Count = 8,
    timeout_s: Timeout = 300.0,
) -> None:
    """Measure a deployed judge against labelled rows; exit 1 if no row gets a score.

    Reports agreement, confusion, AUC, Cohen's kappa, calibration, false accepts and false rejects,
    in total, by answer format, length, deciding stage, criterion and judge.min_probability.
    """
    variants = _variants(template, mode, alone=bool(results or compare or pairs))
    check_outputs(results, out, plot, html)
    settings = {"timeout_s": timeout_s} | ({"model": model} if model else {})
    if pairs:
        if mode or stability or compare or results or plot or html or max_error is not None:
            raise typer.BadParameter(
                "--pairs takes no --mode, --stability, --compare, --max-error, --results, --plot "
                "or --html; omit them"
            )
        settings |= {"template": template[0]} if template else {}
        _evaluate_pairs(_pairs(file, sample, seed), url, app, settings, batches_in_flight, out)
        return
    rows = labelled_rows(file, sample, seed)
    earlier = _earlier(compare, rows) if compare else {}
    runs: dict[str, Run] = {}
    reports: dict[str, dict[str, Any]] = {}
    try:
        client = client_for(url, app)
        batching: dict[str, Any] = {"batch_size": batch_size, "batches": batches_in_flight}
        for variant in variants:
            title, fields = variant.title, {**settings, **variant.settings}
            score = partial(score_with_progress, progress, client, rows, fields)
            run = runs[title] = score(title=title, **batching)
            report = reports[title] = report_of(run, variant.template, variant.mode)
            if stability:
                report["stability"] = score_again(score, run, title, margin=margin, **batching)
            if compare:
                report["compared"] = compared(run, earlier, margin)
    except ServiceUnavailableError as error:
        progress.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    _write(runs, reports, results, out)
    if plot or html:
        curves = {
            title: reliability_of(list(zip(run.rows, run.results, strict=True)))
            for title, run in runs.items()
        }
        chart = curves_figure(curves, {title: r["coverage"] for title, r in reports.items()})
        if plot:
            chart.savefig(plot, format="png", dpi=120)
        if html:
            parts = {"metrics": metrics_table(reports), "groups": group_tables, "chart": chart}
            differing = {title: disagreeing(run) for title, run in runs.items()}
            values = {"name": file.name, "reports": reports, "differing": differing}
            write_page(html, "eval.html", **values, **parts)
    results_of_all = itertools.chain.from_iterable(run.results for run in runs.values())
    if all(result.score is None and not result.components for result in results_of_all):
        for report in reports.values():
            for status, reason in report["reasons"].items():
                line = f"no row was scored; {status}, first reason: {shown_text(reason)}"
                progress.print(line, style="red", markup=False)
        raise typer.Exit(1)
    _print(runs, reports, disagreements)
    if max_error is not None:
        for title, report in reports.items():
            console.print(f"{title}: {advice(report['coverage'], max_error)}", markup=False)


def _evaluate_pairs(
    pairs: list[Pair],
    url: str | None,
    app: str | None,
    settings: dict[str, Any],
    in_flight: int,
    out: Path | None,
) -> None:
    try:
        with Progress(console=progress) as bar:
            task = bar.add_task("comparing", total=len(pairs))
            client, advance = client_for(url, app), partial(bar.advance, task)
            results = asyncio.run(score_pairs(client, pairs, settings, in_flight, advance))
    except ServiceUnavailableError as error:
        progress.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    report = report_of_pairs(pairs, results)
    if out:
        out.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for status, reason in report["reasons"].items():
        line = f"{status}, first reason: {shown_text(reason)}"
        console.print(line, style="yellow", markup=False)
    console.print(pairs_table(report))


def _variants(
    template: list[str] | None, mode: list[ModeName] | None, alone: bool
) -> list[Variant]:
    templates: Sequence[str | None] = template or [None]
    modes: Sequence[str | None] = mode or [None]
    variants = [Variant(*pair) for pair in dict.fromkeys(itertools.product(templates, modes))]
    if alone and len(variants) > 1:
        raise typer.BadParameter("--results and --compare need a single template and mode")
    return variants


def check_outputs(*paths: Path | None) -> None:
    """Check that files can be written at these paths.

    Raises:
        typer.BadParameter: a path is a folder, or its folder does not exist.
    """
    for path in paths:
        if path and not path.parent.is_dir():
            raise typer.BadParameter(f"{path}: the folder {path.parent} does not exist")
        if path and path.is_dir():
            raise typer.BadParameter(f"{path}: is a folder")


def _earlier(path: Path, rows: list[Row]) -> Earlier:
    try:
        earlier = read_results(path)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    except LinesError as error:
        raise typer.BadParameter(f"{path}: is not a file of --results: {error}") from None
    if not any(earlier_result(row, earlier) for row in rows):
        raise typer.BadParameter(f"{path}: has no results for these rows (by line and id)")
    return earlier


def labelled_rows(file: Path, sample: int | None = None, seed: int = 0) -> list[Row]:
    """The file's rows, or a random ``sample`` of them; says which lines are invalid.

    Raises:
        typer.BadParameter: the file cannot be read, or no row is labelled.
    """
    try:
        rows = read_rows(file)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    for row in rows:
        if row.fault:
            progress.print(f"line {row.line}: {row.fault}", style="yellow", markup=False)
    if sample is not None and sample < len(rows):
        rows = sorted(random.Random(seed).sample(rows, sample), key=lambda row: row.line)
    if not any(row.correct is not None or row.criteria for row in rows):
        raise typer.BadParameter(
            f"{file}: no row is labelled; set 'correct' to true or false in each, or 'criteria' to "
            "the score of each criterion"
        )
    return rows


def _pairs(file: Path, sample: int | None, seed: int) -> list[Pair]:
    try:
        pairs = read_pairs(file)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    except LinesError as error:
        raise typer.BadParameter(f"{file}: {error}") from None
    if not pairs:
        raise typer.BadParameter(f"{file}: has no pairs; write one JSON object a line")
    if sample is not None and sample < len(pairs):
        return random.Random(seed).sample(pairs, sample)
    return pairs


def _write(
    runs: dict[str, Run],
    reports: dict[str, dict[str, Any]],
    results: Path | None,
    out: Path | None,
) -> None:
    first, *others = reports.values()
    if results:
        with open(results, "w", encoding="utf-8", opener=OWNER_ONLY) as lines:
            for run in runs.values():
                write_results(run, lines)
    if out:
        data = {**first, "runs": [first, *others]} if others else first
        out.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _print(runs: dict[str, Run], reports: dict[str, dict[str, Any]], disagreements: int) -> None:
    console.print(metrics_table(reports))
    for title, report in reports.items():
        if len(reports) > 1:
            console.rule(escape(title))
        for status, reason in report["reasons"].items():
            line = f"{status}, first reason: {shown_text(reason)}"
            console.print(line, style="yellow", markup=False)
        for table in group_tables(report):
            console.print(table)
        if disagreements:
            console.print(disagreement_table(runs[title], disagreements))
        for key in ("stability", "compared"):
            if key in report:
                console.print(difference(key, report[key]))
