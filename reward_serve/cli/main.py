"""Serve reward models; with reward-serve-lab, also score files and evaluate and attack judges.

Commands that call a service use ``--url`` or ``REWARD_SERVE_URL``, and the API key in
``REWARD_SERVE_API_KEY``.
"""

from __future__ import annotations

import logging
import time
from importlib.metadata import entry_points
from typing import Annotated

try:
    import typer
except ImportError as error:
    raise SystemExit(f"{error.name} is missing: pip install 'reward-serve[serve]'") from None

from reward_serve.cli.ask import ask
from reward_serve.cli.check import check, schema
from reward_serve.cli.console import Url, console, prepare_with_progress, printable, service_url
from reward_serve.cli.doctor import doctor
from reward_serve.cli.serve import serve
from reward_serve.cli.shipped import deployments, requirements, template
from reward_serve.client import HttpRewardClient
from reward_serve.version import __version__

cli = typer.Typer(
    no_args_is_help=True,
    help=__doc__,
    pretty_exceptions_show_locals=False,  # they may include an API key
)
logger = logging.getLogger(__name__)

COMMANDS = "reward_serve.commands"  # entry point group for functions or Typer applications

for command in (serve, check, ask, doctor, requirements, schema):
    cli.command()(command)
cli.add_typer(deployments, name="deployments")
cli.add_typer(template, name="template")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@cli.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print it and exit."
        ),
    ] = False,
) -> None:
    """Options before the command. The help text is this module's docstring."""


@cli.command()
def prepare() -> None:
    """Prepare the bundled judge's weights now; otherwise its first replica does."""
    prepare_with_progress(console)


@cli.command()
def wait(
    url: Url = None,
    timeout_s: Annotated[float, typer.Option(min=0.0, help="Maximum wait, in seconds.")] = 300.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Wait until a service can score; exit 1 on timeout."""
    deadline = time.monotonic() + timeout_s
    url = service_url(url)
    with HttpRewardClient(url) as client:
        while not client.is_ready():
            if time.monotonic() > deadline:
                if not quiet:
                    console.print(f"{url}: not ready after {timeout_s:g} s", markup=False)
                raise typer.Exit(1)
            time.sleep(0.5)


def add_commands(app: typer.Typer) -> None:
    """Add other distributions' commands."""
    for entry in entry_points(group=COMMANDS):
        try:
            command = entry.load()
        except ImportError as error:  # `serve` must still run
            logger.warning("the command %s is left out: %s", entry.name, error)
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


add_commands(cli)


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def main() -> None:
    """Entry point of ``reward-serve`` and ``python -m reward_serve``."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    cli()
