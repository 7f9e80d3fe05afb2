"""Functions shared by the commands: the service's client, and preparing the bundled judge."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from reward_serve.client.handle import RewardClient
from reward_serve.client.http import HttpRewardClient
from reward_serve.client.transport import Transport
from reward_serve.embedded.bundled import (
    ADAPTER,
    STEPS,
    BundledModelError,
    prepare_bundled,
    prepare_int8,
)

_DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "REWARD_SERVE_URL"
API_KEY_VARIABLE = "REWARD_SERVE_API_KEY"

Url = Annotated[
    str | None,
    typer.Option(help=f"The service's URL; default {URL_VARIABLE}, or {_DEFAULT_URL}."),
]


def client_for(url: str | None, app: str | None, model: str | None) -> Transport:
    """A client for ``url``, or by handle for the cluster's application ``app``.

    Raises:
        typer.BadParameter: both are given, a URL cannot be used, or the API key is not a valid
            header value.
        ServiceUnavailableError: the cluster has no such application.
    """
    if url and app:
        raise typer.BadParameter("--url and --app exclude each other; give one of them")
    if app:
        return RewardClient(app, model)
    try:
        return HttpRewardClient(service_url(url), api_key())
    except ValueError as error:
        raise typer.BadParameter(f"{API_KEY_VARIABLE}: {error}") from None


def service_url(given: str | None) -> str:
    """The URL of the service: as given, or ``REWARD_SERVE_URL``, or this machine's.

    Raises:
        typer.BadParameter: the variable names several services.
    """
    url = given or os.environ.get(URL_VARIABLE) or _DEFAULT_URL
    if not given and "," in url:
        raise typer.BadParameter(f"{URL_VARIABLE}: {url} are several services; give --url one")
    return url


def api_key() -> str | None:
    """The service's API key, from the environment, since other users can read command lines."""
    return os.environ.get(API_KEY_VARIABLE)


def prepare_with_progress(out: Console, adapter: Path | None = ADAPTER) -> Path:
    """Prepare the bundled model, showing each step; the shipped judge in int8, too.

    The steps are a progress bar on a terminal, and lines elsewhere.
    """
    try:
        with Progress(console=out, transient=True) as progress:
            task = progress.add_task("bundled judge: checking", total=STEPS)

            def step(what: str) -> None:
                progress.update(task, advance=1, description=f"bundled judge: {what}")
                if not out.is_terminal:
                    out.print(f"bundled judge: {what}", markup=False)

            folder = prepare_bundled(step, adapter)
            if adapter == ADAPTER:  # the machine that serves it may run it in int8
                prepare_int8(step, adapter)
    except BundledModelError as error:
        out.print(str(error), style="red", markup=False)
        raise SystemExit(1) from None
    out.print(f"bundled judge: {folder}", markup=False, highlight=False, soft_wrap=True)
    return folder
