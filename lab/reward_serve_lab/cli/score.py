"""``reward-serve score``: score a file of rows with a service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from reward_serve.cli.console import App, Url, client_for
from reward_serve.lines import OWNER_ONLY
from reward_serve_lab.cli import options
from reward_serve_lab.cli.options import Count, Model, Template, Timeout, progress
from reward_serve_lab.evaluation.bulk import score_with_progress, write_results
from reward_serve_lab.evaluation.report import first_reasons
from reward_serve_lab.evaluation.tables import summary_table


def score(
    file: Annotated[
        Path,
        typer.Argument(help="JSON lines with question, reference, response or messages, correct."),
    ],
    url: Url = None,
    app: App = None,
    out: Annotated[
        Path | None, typer.Option(help="Write results to this file, as JSON lines; default stdout.")
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Write the summary to this JSON file.")
    ] = None,
    model: Model = None,
    template: Template = None,
    mode: Annotated[str | None, typer.Option(help="label or generate.")] = None,
    batch_size: Count = 16,
    batches_in_flight: Count = 8,
    timeout_s: Timeout = options.TIMEOUT_S,
) -> None:
    """Score a file of rows with a service, over HTTP or by handle."""
    options.check_outputs(out, summary)
    rows = options.rows_in(file)
    settings = options.settings_of(model, template, mode, timeout_s)
    with options.needing_the_service():
        client = client_for(url, app)
        run = score_with_progress(
            *(progress, client, rows, settings),
            batch_size=batch_size,
            batches_in_flight=batches_in_flight,
        )
    if out:
        with open(out, "w", encoding="utf-8", opener=OWNER_ONLY) as lines:
            write_results(run, lines)
    else:
        write_results(run, sys.stdout)
    progress.print(summary_table({str(file): run.summary()}))
    options.print_reasons(progress, first_reasons(run))
    if summary:
        options.write_json(summary, run.summary())
