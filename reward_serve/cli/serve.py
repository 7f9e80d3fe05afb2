"""``reward-serve serve``: serve any model with one command."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from reward_serve.cli.console import PLAIN, console, prepare_with_progress
from reward_serve.cli.launch import (
    LaunchError,
    deployed,
    interrupt_on_signals,
    readiness,
    serve_until_stopped,
    wait_until,
)
from reward_serve.cli.options import Kind, deployments_file, note
from reward_serve.cli.profiles import find_profile
from reward_serve.config.base import ConfigError
from reward_serve.config.engine import BUNDLED_MODEL, EngineConfig
from reward_serve.config.judge import JudgeConfig
from reward_serve.config.models import JudgeModel, ModelConfig, RuleConfig, RuleModel
from reward_serve.config.resolve import Build
from reward_serve.engines.bundled import BundledModelError, bundled_judge
from reward_serve.engines.checkpoint import CheckpointError, check_checkpoint, check_kind, is_folder
from reward_serve.engines.openai import RemoteKeyError, remote_key
from reward_serve.engines.vllm import adapter_folder, locate
from reward_serve.keys import read_key_digests
from reward_serve.reward_models.rule import make_verifier, own_function
from reward_serve.schema import Mode
from reward_serve_answers import VERSION

_OPEN = (
    "no API key: anyone who can connect to this port can score; give --api-keys-file FILE, "
    "or omit --host"
)
_TRAINED_ON = JudgeConfig.model_fields["template"].default

Model = Annotated[
    str, typer.Argument(help="bundled, a folder, a hub id, or a deployments file (.yaml).")
]
KindOption = Annotated[Kind | None, typer.Option(help="Kind of reward model; default judge.")]
Template = Annotated[str | None, typer.Option(help="Judging template: a name or a .yaml file.")]
Prompt = Annotated[Path | None, typer.Option(help="File: the prompt of a verifier's card.")]
ModeOption = Annotated[Mode | None, typer.Option(help="How the judge answers; default label.")]
TensorParallel = Annotated[int | None, typer.Option(min=1, help="GPUs per engine.")]
Replicas = Annotated[
    str | None, typer.Option(metavar="MIN:MAX", help="Minimum and maximum number of replicas.")
]
Device = Annotated[
    Build | None,
    typer.Option(
        help="Engine device; default cuda with --tp or --gpus, else that of the installed vLLM. "
        "Set it when another machine will serve the file (--dry-run)."
    ),
]
Gpus = Annotated[
    float | None, typer.Option(min=0, help="GPUs per replica; may be a share such as 0.1.")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Default 8000.")]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set any field of the deployments file, such as judge.max_tokens=256, "
        "engine.quantization=fp8 or server.max_batch_items=64; repeat the option for several.",
    ),
]
Keys = Annotated[Path | None, typer.Option(help="File of API keys: lines of 'name: key'.")]
Address = Annotated[
    str | None, typer.Option(help="Running Ray cluster (auto: this machine's); default: start one.")
]
_VLLMS = [f"--{name.replace('_', '-')}" for name in EngineConfig.model_fields if name != "device"]


def _refuse(argument: str | None) -> None:
    if argument is not None:
        remedy = "use --set engine.max_model_len=8192 and the like, and serve MODEL without --model"
        raise typer.BadParameter(remedy, param_hint="an argument of vLLM's server")


DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the deployments file and exit.")]


def serve(
    model: Model = BUNDLED_MODEL,
    kind: KindOption = None,
    template: Template = None,
    prompt: Prompt = None,
    mode: ModeOption = None,
    device: Device = None,
    tp: TensorParallel = None,
    gpus: Gpus = None,
    replicas: Replicas = None,
    host: Host = None,
    port: Port = None,
    api_keys_file: Keys = None,
    fields: Fields = None,
    address: Address = None,
    dry_run: DryRun = False,
    _: Annotated[str | None, typer.Option(*_VLLMS, hidden=True, callback=_refuse)] = None,
) -> None:
    """Serve a model until Ctrl-C or SIGTERM, then stop what it started.

    Defaults come from the model's profile and the closest shipped deployments file. On a running
    cluster (--address), other applications are left alone.
    """
    of_model: dict[str, Any] = {
        "kind": kind, "template": template, "prompt": prompt, "mode": mode, "device": device,
        "tp": tp, "gpus": gpus, "replicas": replicas,
    }  # fmt: skip
    given = {option: value for option, value in of_model.items() if value is not None}
    try:
        file = deployments_file(model, given, host, port, api_keys_file, fields or ())
        if text := note(model, given):
            console.print(text, **PLAIN)
        for warning in untrained(file.models):
            console.print(warning, style="yellow", **PLAIN)
        if dry_run:
            typer.echo(yaml.safe_dump(file.content, sort_keys=False), nl=False)
            for fault in missing(file.models):
                console.print(f"on this machine, {fault}", style="yellow", **PLAIN)
            return
        for server in file.servers:
            read_key_digests(server.api_keys_file, server.api_keys_env)
        if file.is_open:
            console.print(_OPEN, style="yellow", **PLAIN)
        interrupt_on_signals()
        if address is None:
            _prepare(file.models)
        for line in filter(None, map(card_line, file.models)):
            console.print(line, **PLAIN)
        serve_until_stopped(file, address, console)
    except KeyboardInterrupt:
        console.print("stopped", highlight=False)
    except (BundledModelError, ConfigError, CheckpointError, LaunchError) as error:
        console.print(str(error), style="red", **PLAIN)
        raise typer.Exit(1) from None


@contextmanager
def served(model: str) -> Iterator[str]:
    """Serve what ``serve`` takes during a block, on a free port; yields its URL.

    Raises:
        ConfigError: it cannot be served, or has not one URL.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        file = deployments_file(model, {}, port=port)
        if len(file.urls) != 1:
            raise ConfigError(f"{model}: has {len(file.urls)} URLs; serve it, and give one of them")
        _prepare(file.models)
        (url,) = file.urls
        with deployed(file, None, console):
            wait_until(lambda: readiness(url)["status"] != "waiting", console, file.names)
            if (ready := readiness(url))["status"] == "down":
                raise LaunchError(ready["detail"])
            yield url
    except (BundledModelError, CheckpointError, LaunchError) as error:
        raise ConfigError(str(error)) from None


def _prepare(models: list[ModelConfig]) -> None:
    """Check the models before Ray starts; a replica would fail half a minute later."""
    if faults := missing(models):
        raise ConfigError("; ".join(faults))
    for model in models:
        if (engine := model.vllm) and engine.model == BUNDLED_MODEL:
            prepare_with_progress(console, adapter_folder(engine))
        elif engine:
            locate(engine)


def untrained(models: list[ModelConfig]) -> list[str]:
    """A warning for each model that uses the bundled judge with another template."""
    return [
        f"{model.name}: the bundled judge was trained on the template {_TRAINED_ON} alone; with "
        f"{model.judge.template} its scores mean little, so measure them or serve a larger model"
        for model in models
        if isinstance(model, JudgeModel)
        and (engine := model.vllm)
        and engine.is_bundled_judge
        and model.judge.template != _TRAINED_ON
    ]


def card_line(model: ModelConfig) -> str | None:
    """A judge's card in a line, or how it differs: `cards/NAME.yaml`, else beside its adapter."""
    if not isinstance(model, JudgeModel):
        return None
    judge, paths = model.judge, [Path("cards", f"{model.name}.yaml")]
    served = [f"weights={(model.remote or model.engine).model}", f"mode={judge.mode}"]
    if model.vllm and (adapter := adapter_folder(model.vllm)):
        paths.append(adapter / "card.yaml")
        served.append(f"adapter={bundled_judge().adapter_digest(adapter)}")
    if (path := next(filter(Path.is_file, paths), None)) is None:
        return None
    try:
        card = yaml.safe_load(path.read_bytes())
        summary, measured = card["summary"], card["fingerprint"].split(";")
    except (AttributeError, LookupError, TypeError, yaml.YAMLError):
        return f"{path}: is not a card; write it again by `reward-serve card`"
    template = judge.default_template
    rules = "off" if judge.rules_first is False else template.rules or "off"
    served += [f"template={template.name}@{template.digest}", f"rules={rules}-{VERSION}"]
    if judge.min_probability:
        served.append(f"min_probability={judge.min_probability:g}")
    if others := [part.partition("=")[0] for part in served if part not in measured]:
        return f"{path}: is of other {', '.join(others)}; `reward-serve card` measures this judge"
    return f"card: {summary}"


def missing(models: list[ModelConfig]) -> list[str]:
    """Missing checkpoint and adapter folders, API keys and functions, each with the remedy.

    Models with a ``runtime_env`` are skipped, because it may provide them.
    """
    faults = []
    for model in models:
        if model.resources.runtime_env:
            continue
        try:
            if endpoint := model.endpoint:
                remote_key(endpoint)
            elif engine := model.vllm:
                _check_weights(engine, is_classifier=model.kind == "classifier")
            elif isinstance(model, RuleModel) and model.rule.function:
                own_function(model.rule.function)
            elif isinstance(model, RuleModel) and model.rule.verifier == "code":
                _check_sandbox(model.rule)
        except (BundledModelError, CheckpointError, ConfigError, RemoteKeyError) as error:
            faults.append(f"{model.name}: {error}")
    return faults


def _check_sandbox(rule: RuleConfig) -> None:
    make_verifier(rule)
    if rule.code.sandbox_url is None:
        from reward_serve_checkers.sandbox import sandbox_fault  # the extra may not be installed

        if fault := sandbox_fault():
            raise ConfigError(f"rule.verifier: code: {fault}")


def _check_weights(engine: EngineConfig, is_classifier: bool) -> None:
    checkpoint, adapter = engine.model, adapter_folder(engine)
    if checkpoint == BUNDLED_MODEL:
        if adapter is not None:
            bundled_judge().adapter_digest(adapter)
    elif is_folder(checkpoint):
        check_kind(check_checkpoint(checkpoint), is_classifier=is_classifier)
    else:
        profile = find_profile(checkpoint)  # which refuses models that cannot be served
        if profile and profile.model["kind"] == "classifier" and not is_classifier:
            raise CheckpointError(
                f"engine.model: {checkpoint} writes no verdict; use kind: classifier"
            )
