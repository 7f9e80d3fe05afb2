"""What commands share: the console, the service's client and preparing the bundled judge."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.segment import Segment

from reward_serve.client.transport import HandleTransport, HttpTransport, ServiceTransport
from reward_serve.engines.bundled import BundledModelError, bundled_judge
from reward_serve.keys import API_KEY_VARIABLE

_CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with control characters escaped, except line breaks and tabs."""
    return _CONTROL.sub(lambda control: repr(control[0])[1:-1], text)


class SafeConsole(Console):
    """A console whose terminal no text controls: a service's, a judge's or a file's."""

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        """The segments to print."""
        for text, style, control in super().render(*arguments, **options):
            yield Segment(text if control else printable(text), style, control)


console = SafeConsole(stderr=True)
PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}

_DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "REWARD_SERVE_URL"

Url = Annotated[
    str | None, typer.Option(help=f"The service's URL; default {URL_VARIABLE}, or {_DEFAULT_URL}.")
]
App = Annotated[
    str | None,
    typer.Option(help="Call this Serve application of the cluster at RAY_ADDRESS by handle."),
]


def client_for(url: str | None, app: str | None) -> ServiceTransport:
    """The transport to ``url``, or by handle to the cluster's application ``app``; no retries.

    Raises:
        typer.BadParameter: both are given, or the URL or the API key is invalid.
        ServiceUnavailableError: the URL is malformed.
    """
    if url and app:
        raise typer.BadParameter("--url and --app exclude each other; give one of them")
    if app:
        return HandleTransport(app)
    try:
        return HttpTransport(service_url(url), os.environ.get(API_KEY_VARIABLE))
    except ValueError as error:
        raise typer.BadParameter(f"{API_KEY_VARIABLE}: {error}") from None


def service_url(given: str | None) -> str:
    """``given``, else ``REWARD_SERVE_URL``, which must be one, else this machine's port 8000."""
    url = given or os.environ.get(URL_VARIABLE) or _DEFAULT_URL
    if not given and "," in url:
        raise typer.BadParameter(f"{URL_VARIABLE}: has several URLs ({url}); pass one with --url")
    return url


def prepare_with_progress(
    out: Console, adapter: Path | Literal["shipped"] | None = "shipped"
) -> Path:
    """Prepare the bundled model, with the shipped adapter its int8 weights too; print each step."""

    def step(what: str) -> None:
        out.print(f"bundled judge: {what}", **PLAIN)

    try:
        judge = bundled_judge()
        merged = judge.ADAPTER if adapter == "shipped" else adapter
        with out.status("preparing the bundled judge"):
            folder = judge.prepare_bundled(step, merged)
            if merged == judge.ADAPTER:  # this machine may serve it in int8
                judge.prepare_int8(step, merged)
    except BundledModelError as error:
        out.print(str(error), style="red", markup=False)
        raise SystemExit(1) from None
    step(str(folder))
    return folder
