"""``reward-serve rescore``: score stored rollouts with another judge, and compare."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from reward_serve.cli.console import PLAIN, client_for, printable
from reward_serve.cli.serve import served
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.config.base import ConfigError
from reward_serve.lines import OWNER_ONLY
from reward_serve_lab.cli import options
from reward_serve_lab.cli.options import Count, Html, Model, Template, Timeout, console, progress
from reward_serve_lab.evaluation import rescored
from reward_serve_lab.evaluation.bulk import Row, score_with_progress
from reward_serve_lab.evaluation.html import rendered, write_page
from reward_serve_lab.evaluation.report import first_reasons

File = Annotated[
    Path,
    typer.Argument(
        help="A verdict log, or rollouts as JSON lines (or .gz) or Parquet: rows as for score, or "
        "dumps of verl, SkyRL or TRL; a file or a folder."
    ),
]
With = Annotated[
    str, typer.Option("--with", help="The other judge: a URL, or what `serve` takes, to be served.")
]
Only = Annotated[Literal["all", "absent"], typer.Option(help="absent: rows without a score.")]
Sample = Annotated[
    float | None, typer.Option(min=0, help="About N rows, or a share below 1, in whole groups.")
]
Score = Annotated[str | None, typer.Option(help="Column of the score before.")]
Out = Annotated[Path | None, typer.Option(help="Results; default rescored-NAME.jsonl beside FILE.")]
Report = Annotated[Path | None, typer.Option(help="Write the comparison to this JSON file.")]


def rescore(
    file: File,
    judge: With,
    only: Only = "all",
    sample: Sample = None,
    model: Model = None,
    template: Template = None,
    score: Score = None,
    out: Out = None,
    report: Report = None,
    html: Html = None,
    batch_size: Count = 16,
    batches_in_flight: Count = 8,
    timeout_s: Timeout = options.TIMEOUT_S,
) -> None:
    """Score stored rollouts with another judge, template or version, and compare.

    Run it again to resume after a kill, and to ask again for what has no result; while rows are
    left over, the exit code is 1.
    """
    name = re.sub(r"\.(jsonl|parquet|gz)", "", file.absolute().name)
    out = out or (file if file.is_dir() else file.parent) / f"rescored-{name}.jsonl"
    options.check_outputs(out, report, html)
    settings = options.settings_of(model, template, timeout_s=timeout_s)
    try:
        rollouts, faults = rescored.read_rollouts(file, score)
        with (
            nullcontext(judge) if "://" in judge else served(judge) as url,
            open(out, "a+b", opener=OWNER_ONLY) as results,
        ):
            client = client_for(url, None)
            by = asyncio.run(_judge(client, model, template))
            kept = rescored.RescoredFile(results, by, rollouts)
            asked = [rollout for rollout in rollouts if only == "all" or rollout.score is None]
            asked = asked if sample is None else rescored.sampled(asked, sample)
            asked = [rollout for rollout in asked if rollout.key not in kept.lines]
            rows = [Row(place, rollout.request) for place, rollout in enumerate(asked)]
            run = score_with_progress(
                *(progress, client, rows, settings),
                scored=lambda rows, fresh: kept.append([asked[row.line] for row in rows], fresh),
                batch_size=batch_size,
                batches_in_flight=batches_in_flight,
            )
    except (ConfigError, rescored.RescoreError) as error:
        raise typer.BadParameter(printable(str(error))) from None
    except (OSError, ServiceUnavailableError) as error:
        progress.print(f"{error}; once that is mended, run it again", style="red", **PLAIN)
        raise typer.Exit(1) from None
    counts, reasons = Counter(result.status for result in run.results), first_reasons(run)
    lost = counts.keys() - rescored.FINAL
    left_over = len(faults) + sum(counts[status] for status in lost)
    comparison = {"by": by, "left_over": left_over, **rescored.compare(rollouts, kept.lines)}
    failed = {status.value: (counts[status], reasons.get(status)) for status in sorted(lost)}
    notes = rendered("notes.txt", faults=faults, failed=failed, **comparison).splitlines()
    for note in notes:
        progress.print(note, style="yellow", **PLAIN)
    if report:
        report.write_text(json.dumps(comparison, indent=1) + "\n", encoding="utf-8")
    if kept.lines:
        console.print(rendered("rescored.txt", **comparison), **PLAIN)
        progress.print(f"results: {out}", **PLAIN)
    if html and kept.lines:
        write_page(html, "rescored.html", name=file.name, notes=notes, **comparison)
    if left_over or not kept.lines:
        raise typer.Exit(1)


async def _judge(client: Any, model: str | None, template: str | None) -> str:
    """The judge's name, and a digest of its fingerprint and template."""
    listed = await client.ask("/v1/models", "models", 10)
    models = {entry["name"]: entry for entry in listed["models"]}
    entry = models.get(model or next(iter(models)))
    if entry is None:
        raise ConfigError(f"--model {model}: the service has {', '.join(models)}")
    if not entry["ready"]:
        raise ServiceUnavailableError(f"{entry['name']}: is not ready")
    settings = json.dumps([entry.get("fingerprint"), template])
    return f"{entry['name']}@{sha256(settings.encode()).hexdigest()[:8]}"
