"""``reward-serve score``: score a file of rows with a service."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reward_serve.cli.console import App, SafeConsole, Url, client_for
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.lines import OWNER_ONLY
from reward_serve_lab.cli.evaluate import Count, Model, Timeout, check_outputs
from reward_serve_lab.evaluation.bulk import read_rows, score_with_progress, write_results
from reward_serve_lab.evaluation.report import first_reasons
from reward_serve_lab.evaluation.tables import shown_text, summary_table

console = SafeConsole(stderr=True)


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
    template: Annotated[str | None, typer.Option(help="Judging template.")] = None,
    mode: Annotated[str | None, typer.Option(help="label or generate.")] = None,
    batch_size: Count = 16,
    batches_in_flight: Count = 8,
    timeout_s: Timeout = 300.0,
) -> None:
    """Score a file of rows with a service, over HTTP or by handle."""
    try:
        rows = read_rows(file)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    given = {"model": model, "template": template, "options": {"mode": mode} if mode else None}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    settings["timeout_s"] = timeout_s
    check_outputs(out, summary)
    for row in rows:
        if row.fault:
            console.print(f"line {row.line}: {row.fault}", style="yellow", markup=False)
    try:
        client = client_for(url, app)
        run = score_with_progress(
            console, client, rows, settings, batch_size=batch_size, batches=batches_in_flight
        )
    except ServiceUnavailableError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    if out:
        with open(out, "w", encoding="utf-8", opener=OWNER_ONLY) as lines:
            write_results(run, lines)
    else:
        write_results(run, sys.stdout)
    console.print(summary_table({str(file): run.summary()}))
    for status, reason in first_reasons(run).items():
        line = f"{status}, first reason: {shown_text(reason)}"
        console.print(line, style="yellow", markup=False)
    if summary:
        summary.write_text(json.dumps(run.summary(), indent=1) + "\n", encoding="utf-8")
