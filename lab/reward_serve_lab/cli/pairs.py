"""``reward-serve pairs``: measure how often a judge prefers what a person preferred."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from reward_serve.cli.console import App, Url, client_for
from reward_serve_lab.cli import options
from reward_serve_lab.cli.options import console, progress
from reward_serve_lab.evaluation.pairs import pairs_table, read_pairs, report_of_pairs, score_pairs

PairsFile = Annotated[
    Path, typer.Argument(help="JSON lines with question, responses (two), preferred (0 or 1).")
]


def pairs(
    file: PairsFile,
    url: Url = None,
    app: App = None,
    model: options.Model = None,
    template: options.Template = None,
    sample: options.Sample = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    batches_in_flight: options.Count = 8,
    timeout_s: options.Timeout = options.TIMEOUT_S,
) -> None:
    """Measure how often a deployed judge prefers the response that a person preferred.

    Each pair is asked in both orders. Ties and pairs without a score count as wrong.
    """
    options.check_outputs(out)
    rows = options.read_file(file, read_pairs)
    if not rows:
        raise typer.BadParameter(f"{file}: has no pairs; write one JSON object a line")
    if sample is not None and sample < len(rows):
        rows = random.Random(seed).sample(rows, sample)
    settings = options.settings_of(model, template, timeout_s=timeout_s)
    with options.needing_the_service(), Progress(console=progress) as bar:
        task = bar.add_task("comparing", total=len(rows))
        client, advance = client_for(url, app), partial(bar.advance, task)
        results = asyncio.run(score_pairs(client, rows, settings, batches_in_flight, advance))
    report = report_of_pairs(rows, results)
    if out:
        options.write_json(out, report)
    options.print_reasons(console, report["reasons"])
    console.print(pairs_table(report))
