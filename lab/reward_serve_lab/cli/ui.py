"""``reward-serve ui``: the workbench, in a browser on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from reward_serve.cli.console import SafeConsole, Url, service_url
from reward_serve.keys import API_KEY_VARIABLE

console = SafeConsole(stderr=True)

Log = Annotated[
    list[Path] | None,
    typer.Option(help="Folder of the service's verdict log; repeat the option for several."),
]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port of the pages on 127.0.0.1.")]


def ui(url: Url = None, log: Log = None, port: Port = 8081) -> None:
    """Inspect verdicts in a browser: score, compare, browse the log, monitor the service."""
    from reward_serve_lab.ui.serving import serve  # NiceGUI takes a second

    def show_address(address: str) -> None:
        console.print(f"open {address}", markup=False, highlight=False, soft_wrap=True)

    try:
        serve(service_url(url), os.environ.get(API_KEY_VARIABLE), log or (), port, show_address)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    except OSError as error:
        console.print(f"port {port}: {error.strerror}; choose another --port", style="red")
        raise typer.Exit(1) from None
