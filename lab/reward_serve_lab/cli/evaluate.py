"""``reward-serve eval``: measure a judge against labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from reward_serve.cli.console import App, Url, client_for
from reward_serve.lines import OWNER_ONLY
from reward_serve_lab.cli import options
from reward_serve_lab.cli.options import console, progress
from reward_serve_lab.evaluation import stability as repeats
from reward_serve_lab.evaluation import tables
from reward_serve_lab.evaluation.bulk import Row, Run, score_with_progress, write_results
from reward_serve_lab.evaluation.html import write_page
from reward_serve_lab.evaluation.metrics import reliability_of
from reward_serve_lab.evaluation.report import disagreements as disagreeing
from reward_serve_lab.evaluation.report import report_of


def _refuse_pairs(value: bool) -> None:
    if value:
        raise typer.BadParameter("is a command of its own: reward-serve pairs FILE")


RowsFile = Annotated[
    Path,
    typer.Argument(
        help="JSON lines with question, reference, response or messages, correct, format, id, "
        "rubric, criteria."
    ),
]
Templates = Annotated[
    list[str] | None, typer.Option(help="Judging template; repeat the option to compare several.")
]
Modes = Annotated[
    list[options.ModeName] | None,
    typer.Option(help="Mode of the judge; repeat the option to compare."),
]
Stability = Annotated[
    bool,
    typer.Option("--stability", help="Score the rows again, also in batches of 1, 8 and 64."),
]
MaxError = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Name the judge.min_probability with this share of errors."),
]
Compare = Annotated[Path | None, typer.Option(help="Compare with the --results of an earlier run.")]
Results = Annotated[
    Path | None, typer.Option(help="Write each row's result to this file, as JSON lines.")
]
Plot = Annotated[Path | None, typer.Option(help="Plot reliability and coverage in this PNG file.")]
Disagreements = Annotated[int, typer.Option(min=0, help="Number of disagreements to list.")]
Pairs = Annotated[bool, typer.Option("--pairs", hidden=True, callback=_refuse_pairs)]


def evaluate(
    file: RowsFile,
    url: Url = None,
    app: App = None,
    model: options.Model = None,
    template: Templates = None,
    mode: Modes = None,
    sample: options.Sample = None,
    seed: options.Seed = 0,
    stability: Stability = False,
    compare: Compare = None,
    max_error: MaxError = None,
    results: Results = None,
    out: options.Out = None,
    plot: Plot = None,
    html: options.Html = None,
    disagreements: Disagreements = 10,
    batch_size: options.Count = 16,
    batches_in_flight: options.Count = 8,
    timeout_s: options.Timeout = options.TIMEOUT_S,
    pairs: Pairs = False,
) -> None:
    """Measure a deployed judge against labelled rows; exit 1 if no row gets a score.

    Reports agreement, confusion, AUC, Cohen's kappa, calibration, false accepts and false rejects,
    in total, by answer format, length, deciding stage, criterion and judge.min_probability.
    """
    templates: Sequence[str | None] = template or [None]
    modes: Sequence[options.ModeName | None] = mode or [None]
    ways = dict.fromkeys(itertools.product(templates, modes))
    if (results or compare) and len(ways) > 1:
        raise typer.BadParameter("--results and --compare need a single template and mode")
    options.check_outputs(results, out, plot, html)
    rows = options.labelled_rows(file, sample, seed)
    earlier = _earlier(compare, rows) if compare else {}
    runs: dict[str, Run] = {}
    reports: dict[str, dict[str, Any]] = {}
    with options.needing_the_service():
        client = client_for(url, app)
        batching: Any = {"batch_size": batch_size, "batches_in_flight": batches_in_flight}
        for way in ways:
            title = ", ".join(filter(None, way)) or "as deployed"
            fields = options.settings_of(model, *way, timeout_s)
            fields["options"] = {**fields.get("options", {}), "cache": False}
            score = partial(score_with_progress, progress, client, rows, fields)
            run = runs[title] = score(title=title, **batching)
            report = reports[title] = report_of(run, *way)
            if stability:
                report["stability"] = repeats.score_again(score, run, title, **batching)
            if compare:
                report["compared"] = repeats.compared(run, earlier)
    if results:
        with open(results, "w", encoding="utf-8", opener=OWNER_ONLY) as lines:
            for run in runs.values():
                write_results(run, lines)
    if out:
        first, *others = reports.values()
        options.write_json(out, {**first, "runs": [first, *others]} if others else first)
    if plot or html:
        _draw(runs, reports, file.name, plot, html)
    every = itertools.chain.from_iterable(run.results for run in runs.values())
    if all(result.score is None and not result.components for result in every):
        for report in reports.values():
            for status, reason in report["reasons"].items():
                reason = tables.shown_text(reason)
                line = f"no row was scored; {status}, first reason: {reason}"
                progress.print(line, style="red", markup=False)
        raise typer.Exit(1)
    _print(runs, reports, disagreements)
    if max_error is not None:
        for title, report in reports.items():
            advice = tables.advice(report["coverage"], max_error)
            console.print(f"{title}: {advice}", markup=False)


def _earlier(path: Path, rows: list[Row]) -> repeats.Earlier:
    earlier = options.read_file(path, repeats.read_results, "is not a file of --results: ")
    if not any(repeats.earlier_result(row, earlier) for row in rows):
        raise typer.BadParameter(f"{path}: has no results for these rows (by line and id)")
    return earlier


def _draw(
    runs: dict[str, Run],
    reports: dict[str, dict[str, Any]],
    name: str,
    plot: Path | None,
    html: Path | None,
) -> None:
    curves = {
        title: reliability_of(list(zip(run.rows, run.results, strict=True)))
        for title, run in runs.items()
    }
    coverages = {title: report["coverage"] for title, report in reports.items()}
    chart = tables.curves_figure(curves, coverages)
    if plot:
        chart.savefig(plot, format="png", dpi=120)
    if html:
        parts = {"metrics": tables.metrics_table(reports), "groups": tables.group_tables}
        differing = {title: disagreeing(run) for title, run in runs.items()}
        values = {"name": name, "reports": reports, "differing": differing, "chart": chart}
        write_page(html, "eval.html", **values, **parts)


def _print(runs: dict[str, Run], reports: dict[str, dict[str, Any]], disagreements: int) -> None:
    console.print(tables.metrics_table(reports))
    for title, report in reports.items():
        if len(reports) > 1:
            console.rule(escape(title))
        options.print_reasons(console, report["reasons"])
        for table in tables.group_tables(report):
            console.print(table)
        if disagreements:
            console.print(tables.disagreement_table(runs[title], disagreements))
        for key in ("stability", "compared"):
            if key in report:
                console.print(tables.difference(key, report[key]))
