"""``reward-serve serve``: any model, by one command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from reward_serve.cli.console import prepare_with_progress
from reward_serve.cli.deployment import (
    Kind,
    ModelOptions,
    ModeName,
    ServerOptions,
    check_keys,
    deployments_file,
    is_open,
)
from reward_serve.config.base import ConfigError
from reward_serve.config.engine import BUNDLED_MODEL
from reward_serve.config.models import ClassifierModel, JudgeModel, RemoteModel, RuleModel
from reward_serve.engines.checkpoint import CheckpointError
from reward_serve.engines.openai import RemoteKeyError, remote_key
from reward_serve.engines.vllm_settings import adapter_folder, locate
from reward_serve.launch import LaunchError, models_of, serve_until_stopped, until_stopped
from reward_serve.shipped import Build

console = Console(stderr=True)

_PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
# In a process of its own: what it imports is the user's, and may be torch.
_IMPORT_FUNCTION = """
import sys
from reward_serve.config.base import ConfigError
from reward_serve.verifiers.own_function import FunctionVerifier
try:
    FunctionVerifier(sys.argv[1])
except ConfigError as error:
    sys.exit(" ".join(str(error).split()))
"""

Model = Annotated[
    str, typer.Argument(help="bundled, a folder, a hub id, or a deployments file (.yaml).")
]
KindOption = Annotated[Kind | None, typer.Option(help="Of reward model; default judge.")]
Template = Annotated[str | None, typer.Option(help="A judging template: its name, or a .yaml.")]
Mode = Annotated[ModeName | None, typer.Option(help="How the judge answers; default label.")]
Rules = Annotated[
    bool | None,
    typer.Option("--rules/--no-rules", help="Ask the model only what no rule decides; default."),
]
Adapter = Annotated[
    str | None, typer.Option(help="Merged into bundled: shipped, none, or a LoRA's folder.")
]
TensorParallel = Annotated[int | None, typer.Option(min=1, help="GPUs of a replica's engine.")]
Replicas = Annotated[
    str | None, typer.Option(metavar="MIN:MAX", help="How many; they follow the load.")
]
Device = Annotated[
    Build | None,
    typer.Option(
        help="Of the engine; default cuda with --tp or --gpus, else what the installed vLLM runs "
        "on. Give it for a file (--dry-run) that another machine serves."
    ),
]
Gpus = Annotated[float | None, typer.Option(min=0, help="Of a replica, or a share such as 0.1.")]
Cpus = Annotated[float | None, typer.Option(min=0.1, help="Cores of a replica.")]
Host = Annotated[str | None, typer.Option(help="Where to listen; default 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Default 8000.")]
Keys = Annotated[Path | None, typer.Option(help="Who may ask: a file of lines 'name: key'.")]
Address = Annotated[
    str | None, typer.Option(help="A Ray cluster that runs (auto: this machine's); default own.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the deployments file instead.")]


def serve(
    model: Model = BUNDLED_MODEL,
    kind: KindOption = None,
    template: Template = None,
    mode: Mode = None,
    rules: Rules = None,
    adapter: Adapter = None,
    device: Device = None,
    tp: TensorParallel = None,
    gpus: Gpus = None,
    cpus: Cpus = None,
    replicas: Replicas = None,
    host: Host = None,
    port: Port = None,
    api_keys_file: Keys = None,
    address: Address = None,
    dry_run: DryRun = False,
) -> None:
    """Serve a model until Ctrl-C or SIGTERM; all that it started ends with it.

    What no option says is as in the shipped deployments file that is nearest. On a cluster that
    runs (--address), what it serves already goes on.
    """
    options = ModelOptions(kind, template, mode, rules, adapter, tp, gpus, cpus, replicas, device)
    server = ServerOptions(host, port, api_keys_file)
    try:
        content = deployments_file(model, options, server)
        if dry_run:
            typer.echo(yaml.safe_dump(content, sort_keys=False), nl=False)
            for fault in _missing(content):
                console.print(f"on this machine, {fault}", style="yellow", **_PLAIN)
            return
        check_keys(content)
        if is_open(content):
            _warn(content)
        with until_stopped(console):
            if address is None:
                _prepare(content)
            serve_until_stopped(content, address, console)
    except (ConfigError, CheckpointError, LaunchError) as error:
        console.print(str(error), style="red", **_PLAIN)
        raise typer.Exit(1) from None


def _prepare(content: dict[str, Any]) -> None:
    """Look at the models before Ray starts: a replica would fail on them half a minute later."""
    if missing := _missing(content):
        raise ConfigError("; ".join(missing))
    for model in models_of(content):
        if not isinstance(model, JudgeModel | ClassifierModel):
            continue
        if model.engine.model == BUNDLED_MODEL:
            prepare_with_progress(console, adapter_folder(model.engine))
        else:
            locate(model.engine)


def _missing(content: dict[str, Any]) -> list[str]:
    """The keys of remote models and the functions of rules that are not here, with the remedy.

    A model with a ``runtime_env`` may find them there, so it is left out.
    """
    faults = []
    for model in models_of(content):
        if model.resources.runtime_env:
            continue
        if isinstance(model, RemoteModel):
            try:
                remote_key(model.remote)
            except RemoteKeyError as error:
                faults.append(f"{model.name}: {error}")
        elif isinstance(model, RuleModel) and model.rule.function:
            command = [sys.executable, "-c", _IMPORT_FUNCTION, model.rule.function]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
                faults.append(f"{model.name}: {said[-1]}")
    return faults


def _warn(content: dict[str, object]) -> None:
    console.print(
        "whoever reaches this port may ask, and ask for anything to be judged: give "
        "--api-keys-file FILE, or leave --host out",
        style="yellow",
        **_PLAIN,
    )
