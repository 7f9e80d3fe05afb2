"""``python -m loadtests.load``: run locust against a running service, or a new one.

python -m loadtests.load --shape spike --url http://127.0.0.1:8000 --peak-users 32

Without a URL it deploys the bundled judge on a new cluster and shuts it down afterwards. Other
arguments are passed to locust; ``locust -f loadtests/locustfile.py --help`` lists them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from deployments.local import ROOT, console, deployed
from loadtests.load import SHAPES

_LOCUSTFILE = ROOT / "loadtests" / "locustfile.py"


def main(
    context: typer.Context,
    shape: Annotated[str, typer.Option(help=f"{', '.join(SHAPES)}.")] = "steady",
    url: Annotated[str, typer.Option(help="A running service; default: deploy one.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder for report, CSV and figures.")] = None,
    web: Annotated[bool, typer.Option(help="Serve locust's web page on 127.0.0.1.")] = False,
) -> None:
    """Run locust and exit with its code."""
    out = out or ROOT / ".load" / f"{shape}-{time.strftime('%Y%m%d-%H%M%S')}"
    out.mkdir(parents=True, exist_ok=True)
    arguments = ["--shape", shape, *command_line(out, web), *context.args]
    if url:
        code = run(["--host", url, *arguments])
    else:
        with deployed() as service:
            code = run(["--host", service.url, *arguments])
    console.print(f"{out}: report.html, *.csv, summary.json", markup=False)
    raise typer.Exit(code)


def command_line(out: Path, web: bool) -> list[str]:
    """Locust's arguments for its result files and its web page."""
    files = ["--html", str(out / "report.html"), "--csv", str(out / "locust")]
    files += ["--summary", str(out / "summary.json")]
    return [*files, "--web-host", "127.0.0.1"] if web else [*files, "--headless", "--only-summary"]


def run(arguments: list[str]) -> int:
    """Run locust, forward SIGTERM, wait for it, and return its exit code."""
    command = [sys.executable, "-m", "locust", "-f", str(_LOCUSTFILE), *arguments]
    process = subprocess.Popen(command, cwd=ROOT)
    handlers = {
        signal.SIGINT: lambda *_: None,  # a terminal sends Ctrl-C to locust, too
        signal.SIGTERM: lambda *_: process.terminate(),
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        return process.wait() & 0xFF
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(main)
    app()
