"""``reward-serve check`` and ``schema``: validate a deployments file; print JSON schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from reward_serve.cli.console import PLAIN, console
from reward_serve.cli.options import deployments_file
from reward_serve.cli.serve import missing, untrained
from reward_serve.config.base import ConfigError
from reward_serve.keys import read_key_digests
from reward_serve.templates import FILE_SUFFIXES

File = Annotated[Path, typer.Argument(help="A deployments file, or the name of a shipped one.")]
SchemaName = Annotated[
    Literal["deployment", "template", "rubric"], typer.Argument(help="Kind of file.")
]


def check(file: File) -> None:
    """Check a deployments file and print the resources of its replicas; exit 1 if it is invalid.

    Starts no cluster and no engine. What only this machine lacks, such as an API key or a model's
    folder, is a warning.
    """
    if file.suffix not in FILE_SUFFIXES:
        raise typer.BadParameter(f"{file}: must end in {' or '.join(FILE_SUFFIXES)}")
    try:
        deployments = deployments_file(str(file), {})
        for server in deployments.servers:
            read_key_digests(server.api_keys_file, server.api_keys_env)
    except ConfigError as error:
        console.print(str(error), style="red", **PLAIN)
        raise typer.Exit(1) from None
    totals = [0.0] * 4
    for model in deployments.models:
        least, most = model.autoscaling.min_replicas, model.autoscaling.max_replicas
        cpus, gpus = model.resources.num_cpus or 0, model.resources.num_gpus or 0
        replicas = _amount("replica", least, most)
        asked = f"{_amount('CPU core', cpus)}, {_amount('GPU', gpus)}"
        typer.echo(f"{model.name}: {model.kind}, {replicas} of {asked}")
        for place, amount in enumerate((least * cpus, most * cpus, least * gpus, most * gpus)):
            totals[place] += amount
    cores, gpus_in_all = _amount("CPU core", *totals[:2]), _amount("GPU", *totals[2:])
    typer.echo(f"total: {cores}, {gpus_in_all}")
    for warning in untrained(deployments.models):
        console.print(warning, style="yellow", **PLAIN)
    for fault in missing(deployments.models):
        console.print(f"on this machine, {fault}", style="yellow", **PLAIN)


def schema(of: SchemaName) -> None:
    """Print the JSON schema of a deployments file, a judging template or a rubric, for editors."""
    from reward_serve.cli.file_schema import json_schema  # imports Ray, which takes a second

    typer.echo(json.dumps(json_schema(of), indent=1))


def _amount(unit: str, least: float, most: float | None = None) -> str:
    most = least if most is None else most
    amount = f"{least:g}" if least == most else f"{least:g} to {most:g}"
    return f"{amount} {unit}" if most == 1 else f"{amount} {unit}s"
