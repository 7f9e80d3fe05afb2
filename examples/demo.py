"""``make demo``: deploy the bundled judge, score labelled rows, print one table, shut down.

python -m examples.demo                                   # the sample set, over HTTP and by handle
python -m examples.demo --data FILE.jsonl --out SUM.json  # any labelled file, over HTTP
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from deployments.local import APP, ROOT, console, deployed
from reward_serve import HttpRewardClient, RewardClient
from reward_serve_lab.evaluation.bulk import Run, read_rows, score_with_progress
from reward_serve_lab.evaluation.tables import summary_table

SAMPLES = ROOT / "examples" / "gsm8k" / "samples.jsonl"


def main(
    data: Annotated[
        Path | None, typer.Option(help="JSONL file of labelled rows; default: the sample set.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the summary to this JSON file.")] = None,
    rules: Annotated[
        str, typer.Option(help="on: rules decide first; off: the model judges every row.")
    ] = "on",
) -> None:
    """Deploy, score, report, shut down."""
    if rules not in ("on", "off"):
        raise typer.BadParameter(f"RULES must be on or off (found {rules!r})")
    rows = read_rows(data or SAMPLES)
    if not rows:
        raise typer.BadParameter(f"{data}: has no rows")
    with deployed(rules_first=rules == "on", judge={"min_probability": None}) as service:
        with HttpRewardClient(service.url) as client:
            runs = {"HTTP": judged(client, rows, "HTTP")}
            start_s = client.models()[0]["start_s"]
            start_s["replica in all"] = start_s.pop("total")
        if data is None:
            runs["handle"] = judged(RewardClient(APP), rows, "handle", options={"cache": False})
    report(runs, service.ready_s, {"Ray": service.ray_s, **start_s}, out)


def judged(client: Any, rows: list[Any], name: str, **settings: Any) -> Run:
    """Score the rows with a client."""
    settings["timeout_s"] = 600.0
    return score_with_progress(console, client, rows, settings, title=f"by {name}")


def report(runs: dict[str, Run], ready_s: float, parts: dict[str, float], out: Path | None) -> None:
    """Print a table of the runs, and write the first run's summary as JSON."""
    summaries = {name: run.summary() for name, run in runs.items()}
    console.print(summary_table(summaries))
    if len(runs) > 1:
        console.print("The second run's prompts are in the engine's prefix cache.")
    replica = ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts.items())
    console.print(f"ready after {ready_s:.1f} s ({replica})", highlight=False)
    for run in runs.values():
        for row, result in zip(run.rows, run.results, strict=True):
            if result.score is None:
                console.print(f"line {row.line}: {result.status}: {result.reason}", markup=False)
    if out:
        summary = {**next(iter(summaries.values())), "ready_s": ready_s}
        out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        console.print(f"summary: {out}", markup=False)


if __name__ == "__main__":
    typer.run(main)
