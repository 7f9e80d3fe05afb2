"""``python -m reward_serve``: prepare, wait, score, eval, attack, template, doctor.

Over HTTP the API key is that of ``REWARD_SERVE_API_KEY``.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
except ImportError as error:
    raise SystemExit(f"{error.name} is missing: pip install 'reward-serve[serve]'") from None

from reward_serve.attacks.command import attack
from reward_serve.bulk import read_rows, write_results
from reward_serve.client import HttpRewardClient
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.console import (
    api_key,
    client_for,
    prepare_with_progress,
    score_with_progress,
    summary_table,
)
from reward_serve.doctor import Finding, examine_machine, examine_service
from reward_serve.evaluation.command import evaluate
from reward_serve.linting.command import template

if TYPE_CHECKING:
    from collections.abc import Sequence

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help=__doc__,
    pretty_exceptions_show_locals=False,  # one may be an API key
)
console = Console(stderr=True)
cli.command("eval")(evaluate)
cli.command()(attack)
cli.add_typer(template, name="template")


@cli.command()
def prepare() -> None:
    """Prepare the bundled judge's weights (done by a replica when it has not been)."""
    prepare_with_progress(console)


@cli.command()
def score(
    file: Annotated[
        Path, typer.Argument(help="JSON lines: question, reference, response, correct")
    ],
    url: Annotated[str | None, typer.Option(help="Default http://127.0.0.1:8000.")] = None,
    app: Annotated[
        str | None, typer.Option(help="A Serve application of RAY_ADDRESS's cluster, by handle.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Results as JSON lines; default stdout.")] = None,
    summary: Annotated[Path | None, typer.Option(help="The summary as JSON.")] = None,
    model: Annotated[str | None, typer.Option(help="Which reward model.")] = None,
    template: Annotated[str | None, typer.Option(help="Which judging template.")] = None,
    mode: Annotated[str | None, typer.Option(help="label or generate.")] = None,
    batch_size: Annotated[int, typer.Option(min=1)] = 16,
    batches_in_flight: Annotated[int, typer.Option(min=1)] = 8,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Deadline of each row.")] = 300.0,
) -> None:
    """Score a file of rows against a service, by URL or by handle."""
    try:
        rows = read_rows(file)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    given = {"model": model, "template": template, "options": {"mode": mode} if mode else None}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    settings["timeout_s"] = timeout_s
    for path in (out, summary):
        if path and not path.parent.is_dir():
            raise typer.BadParameter(f"{path}: there is no folder {path.parent}")
    for row in rows:
        if row.fault:
            console.print(f"line {row.line}: {row.fault}", style="yellow", markup=False)
    try:
        client = client_for(url, app, model)
        run = score_with_progress(
            console, client, rows, settings, batch_size=batch_size, batches=batches_in_flight
        )
    except ServiceUnavailableError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    if out:
        with out.open("w", encoding="utf-8") as lines:
            write_results(run, lines)
    else:
        write_results(run, sys.stdout)
    console.print(summary_table({str(file): run.summary()}))
    if summary:
        summary.write_text(json.dumps(run.summary(), indent=1) + "\n", encoding="utf-8")


@cli.command()
def doctor(
    url: Annotated[str | None, typer.Option(help="Check the service there, too.")] = None,
) -> None:
    """Say what this machine would run and why; exit 1 when something is amiss."""
    findings = examine_machine() + (examine_service(url, api_key()) if url else [])
    console.print(_findings_table(findings))
    if any(finding.remedy for finding in findings):
        raise typer.Exit(1)


@cli.command()
def wait(
    url: Annotated[str, typer.Option(help="Of the service.")] = "http://127.0.0.1:8000",
    timeout_s: Annotated[float, typer.Option(min=0.0, help="How long at most.")] = 300.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="The exit code alone.")] = False,
) -> None:
    """Wait until a service can score; exit 1 when it cannot in time."""
    deadline = time.monotonic() + timeout_s
    with HttpRewardClient(url) as client:
        while not client.is_ready():
            if time.monotonic() > deadline:
                if not quiet:
                    console.print(f"{url}: cannot score after {timeout_s:g} s", markup=False)
                raise typer.Exit(1)
            time.sleep(0.5)


def main() -> None:
    """Entry point of ``python -m reward_serve``."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    cli()


def _findings_table(findings: Sequence[Finding]) -> Table:
    table = Table("", "found", "remedy")
    for finding in findings:
        style = "yellow" if finding.remedy else None
        cells = (finding.what, finding.found, finding.remedy or "")
        table.add_row(*map(escape, cells), style=style)
    return table
