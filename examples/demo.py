"""``make demo``: deploy the bundled judge, score labelled rows, print one table, shut down.

python examples/demo.py                                   # the sample set, HTTP and handle
python examples/demo.py --data FILE.jsonl --out SUM.json  # any labelled file, by HTTP
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from reward_serve import HttpRewardClient, RewardClient
from reward_serve.bulk import Run, read_rows
from reward_serve.console import prepare_with_progress, score_with_progress, summary_table

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "examples" / "gsm8k" / "samples.jsonl"
APP = "reward"
READY_TIMEOUT_S = 300.0

console = Console()


def main(
    data: Annotated[
        Path | None, typer.Option(help="Labelled rows, instead of the samples.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the summary.")] = None,
    rules: Annotated[str, typer.Option(help="off: the model judges everything.")] = "on",
) -> None:
    """Deploy, score, report, shut down."""
    if rules not in ("on", "off"):
        raise typer.BadParameter(f"RULES is on or off, not {rules!r}")
    rows = read_rows(data or SAMPLES)
    if not rows:
        raise typer.BadParameter(f"{data}: holds no rows")
    prepare_with_progress(console)
    import ray
    from ray import serve

    began = time.monotonic()
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="error")
    ray_s = time.monotonic() - began
    try:
        url = deploy(ray.get_runtime_context().gcs_address, rules_first=rules == "on")
        with HttpRewardClient(url) as client:
            wait_until_ready(client)
            ready_s = time.monotonic() - began
            runs = {"HTTP": judged(client, rows, "HTTP")}
            start_s = client.models()[0]["start_s"]
        if data is None:
            runs["handle"] = judged(RewardClient(APP), rows, "handle")
    finally:
        serve.shutdown()
        ray.shutdown()
    report(runs, ready_s, {"Ray": ray_s, **start_s}, out)


def deploy(address: str, rules_first: bool) -> str:
    """``serve run`` judge.yaml on the cluster at ``address``, on a free port; the URL."""
    config = yaml.safe_load((ROOT / "deployments" / "judge.yaml").read_text(encoding="utf-8"))
    port = free_port()
    config["http_options"]["port"] = port
    config["applications"][0]["args"]["models"][0]["judge"]["rules_first"] = rules_first
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "judge.yaml")
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        command = [sys.executable, "-m", "ray.serve.scripts", "run"]
        command += ["--non-blocking", "--address", address, str(path)]
        with console.status("serve run deployments/judge.yaml"):
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=dict(os.environ)
            )
    if done.returncode != 0:
        console.print(done.stdout + done.stderr, markup=False)
        raise SystemExit(1)
    return f"http://127.0.0.1:{port}"


def wait_until_ready(client: HttpRewardClient) -> None:
    """Show what Serve says of the application until it can score."""
    from ray import serve

    began = time.monotonic()
    with console.status("deploying") as status:
        while not client.is_ready():
            app = serve.status().applications.get(APP)
            state = app.status.value if app else "waiting for the controller"
            elapsed = time.monotonic() - began
            status.update(f"{state.lower()} ({elapsed:.0f} s)")
            if state in ("DEPLOY_FAILED", "UNHEALTHY") or elapsed > READY_TIMEOUT_S:
                console.print(f"{state}: {app.message if app else ''}", style="red", markup=False)
                raise SystemExit(1)
            time.sleep(0.5)


def judged(client: Any, rows: list[Any], way: str) -> Run:
    """Score the rows one way."""
    return score_with_progress(console, client, rows, {"timeout_s": 600.0}, title=f"by {way}")


def report(runs: dict[str, Run], ready_s: float, parts: dict[str, float], out: Path | None) -> None:
    """One table for people, and the first run's summary for machines."""
    summaries = {way: run.summary() for way, run in runs.items()}
    console.print(summary_table(summaries))
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


def free_port() -> int:
    """A TCP port nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


if __name__ == "__main__":
    typer.run(main)
