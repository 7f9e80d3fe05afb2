"""Builds a deployments file from the options of ``reward-serve serve``.

Options are applied to the closest shipped file, which supplies the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
import yaml

from reward_serve.cli.shipped import shipped_file
from reward_serve.config.base import ConfigError
from reward_serve.config.engine import BUNDLED_MODEL, NO_ADAPTER, SHIPPED_ADAPTER
from reward_serve.config.resolve import installed_build
from reward_serve.engines.checkpoint import is_folder
from reward_serve.keys import read_key_digests
from reward_serve.schema import Mode
from reward_serve.shipped import Build
from reward_serve.templates import FILE_SUFFIXES

if TYPE_CHECKING:
    from reward_serve.cli.file_schema import DeploymentsFile

_FILE = ("applications", "http_options", "grpc_options", "logging_config", "proxy_location")
_ARGS = ("models", "server")


def set_field(content: dict[str, Any], assignment: str) -> None:
    """Set one field of the file's content, in place; sections that it lacks are added.

    Args:
        content: content of the deployments file.
        assignment: ``PATH=VALUE``. The path begins at the only model (``judge.max_tokens``), at
            ``args`` of the only application (``server...``, ``models.0...``) or at the top of the
            file (``applications.0...``); the value is YAML.

    Raises:
        typer.BadParameter: the path leads nowhere, or the value is not YAML.
    """
    path, equals, text = assignment.partition("=")
    *sections, field = path.strip().split(".")
    if not equals or not field or "" in sections:
        raise typer.BadParameter(f"--set {assignment}: write PATH=VALUE, such as judge.mode=label")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise typer.BadParameter(f"--set {assignment}: {text!r} is not YAML; quote it") from None
    place = _start(content, (sections or [field])[0], assignment)
    for section in sections:
        place = _entry(place, section, assignment)
    if isinstance(place, dict):
        place[field] = value
    elif field.isdecimal() and int(field) < len(place):
        place[int(field)] = value
    else:
        raise typer.BadParameter(f"--set {assignment}: the list has no entry {field!r}")


def _start(content: dict[str, Any], first: str, assignment: str) -> Any:
    if first in _FILE:
        return content
    applications = content["applications"]
    if len(applications) > 1:
        raise typer.BadParameter(
            f"--set {assignment}: the file has {len(applications)} applications; begin the path "
            "with applications.0.args, or another number"
        )
    args = applications[0].setdefault("args", {})
    if first in _ARGS:
        return args
    if len(models := args.get("models") or []) != 1:
        raise typer.BadParameter(
            f"--set {assignment}: the application has {len(models)} models; begin the path with "
            "models.0, or another number"
        )
    return models[0]


def _entry(place: Any, key: str, assignment: str) -> Any:
    """The section at ``key``, which in a list is an index."""
    found: Any = None
    if isinstance(place, dict):
        found = place[key] = {} if place.get(key) is None else place[key]
    elif key.isdecimal() and int(key) < len(place):
        found = place[int(key)]
    if isinstance(found, dict | list):
        return found
    raise typer.BadParameter(f"--set {assignment}: {key!r} is not a section or an entry of a list")


Kind = Literal["judge", "classifier"]

_BUNDLED_GPU_SHARE = 0.1
_MOVES = [
    ("models", "move models to applications.0.args, as in"),
    ("args", "move the application to the list applications, as in"),
    ("kind", "move the model to the list applications.0.args.models, as in"),
]
_OF_ANY_FILE = frozenset(["host", "port", "api_keys_file", "fields", "verdict_log"])


@dataclass(frozen=True)
class Options:
    """The options of ``reward-serve serve`` that set fields; None if not given.

    Attributes:
        fields: fields to set, each as ``PATH=VALUE``.
        verdict_log: folder of the verdict log of every model.
    """

    kind: Kind | None = None
    template: str | None = None
    mode: Mode | None = None
    rules: bool | None = None
    adapter: str | None = None
    tp: int | None = None
    gpus: float | None = None
    cpus: float | None = None
    replicas: str | None = None
    device: Build | None = None
    host: str | None = None
    port: int | None = None
    api_keys_file: Path | None = None
    fields: Sequence[str] = ()
    verdict_log: Path | None = None

    def of_model(self) -> list[str]:
        """The names of the given options that only apply where ``serve`` names a model."""
        names = (field.name for field in fields(self) if field.name not in _OF_ANY_FILE)
        return [name for name in names if getattr(self, name) is not None]


def deployments_file(model: str, options: Options) -> DeploymentsFile:
    """Build and validate the deployments file.

    Args:
        model: ``bundled``, a folder, a hub id, or a deployments file.
        options: options to apply to it.

    Raises:
        typer.BadParameter: an option does not apply, or the file does not exist.
        ConfigError: a field is invalid; the message has the remedy.
    """
    from reward_serve.cli.file_schema import checked  # imports Ray, which takes a second

    if model.endswith(FILE_SUFFIXES):
        if of_model := options.of_model():
            raise typer.BadParameter(
                f"--{of_model[0]}: does not apply to a deployments file; use --set, or edit {model}"
            )
        path = Path(model)
        content = checked(_read(path if path.is_file() else _shipped(model))).content
    else:
        content = _read(shipped_file(_nearest(model, options)))
        _put_model(content["applications"][0]["args"], model, options)
    http = content.setdefault("http_options", {})
    http |= {k: v for k, v in (("host", options.host), ("port", options.port)) if v is not None}
    for application in content["applications"]:
        _put_keys_and_log(application, options)
    for field in options.fields:
        set_field(content, field)
    return checked(content)


def check_keys(file: DeploymentsFile) -> None:
    """Check that the file's API keys can be read.

    Raises:
        ConfigError: they cannot; the message has the field and the remedy, never a key.
    """
    for server in file.servers:
        read_key_digests(server.api_keys_file, server.api_keys_env)


def _nearest(model: str, options: Options) -> str:
    if options.kind == "classifier":
        return "classifier.yaml"
    return "judge.yaml" if model == BUNDLED_MODEL else "judge-gpu.yaml"


def _put_model(args: dict[str, Any], model: str, options: Options) -> None:
    (section,) = args["models"]
    engine = section["engine"]
    if model != BUNDLED_MODEL:
        folder = Path(model).expanduser().resolve() if is_folder(model) else None
        section["name"] = _name(folder.name if folder else model.rpartition("/")[2])
        engine |= {"model": str(folder or model), "dtype": "auto"}
    if options.adapter:
        named = options.adapter in (SHIPPED_ADAPTER, NO_ADAPTER)
        engine["adapter"] = options.adapter if named else str(Path(options.adapter).resolve())
    _put_resources(section, model, options)
    judge = {"template": options.template, "mode": options.mode, "rules_first": options.rules}
    if options.template and options.template.endswith(FILE_SUFFIXES):
        judge["template"] = str(Path(options.template).resolve())
    if options.template and options.rules is None:  # the template may have no rules
        section.get("judge", {}).pop("rules_first", None)
    if judge := {field: value for field, value in judge.items() if value is not None}:
        section.setdefault("judge", {}).update(judge)
    if options.replicas:
        section["autoscaling"] = _scaling(options.replicas)


def _put_keys_and_log(application: dict[str, Any], options: Options) -> None:
    builder = application["import_path"]
    is_routed = application.get("route_prefix", "/") is not None
    if options.api_keys_file and is_routed and builder.startswith("reward_serve.app:"):
        server = application["args"].setdefault("server", {})
        server["api_keys_file"] = str(options.api_keys_file.absolute())
    if options.verdict_log and builder == "reward_serve.app:build_app":
        folder = str(options.verdict_log.expanduser().absolute())
        for section in application["args"]["models"]:
            section.setdefault("verdict_log", {})["folder"] = folder


def _put_resources(section: dict[str, Any], model: str, options: Options) -> None:
    engine, gpus = section["engine"], options.gpus
    device = options.device or _device(model, options)
    if model != BUNDLED_MODEL or options.device:
        engine["device"] = device
    if model != BUNDLED_MODEL and device == "cpu":
        engine.pop("max_num_seqs", None)  # sized for a GPU
    if model == BUNDLED_MODEL and device == "cuda" and not options.tp and gpus is None:
        gpus = _BUNDLED_GPU_SHARE
    if options.tp:
        engine["tensor_parallel_size"] = options.tp
    for field, value in (("num_cpus", options.cpus), ("num_gpus", gpus)):
        if value is not None:
            section.setdefault("resources", {})[field] = value


def _device(model: str, options: Options) -> Build:
    """The device that ``--tp`` and ``--gpus`` imply, else that of the installed vLLM."""
    if options.tp or options.gpus is not None:
        return "cuda" if options.tp or options.gpus else "cpu"
    return installed_build() or ("cpu" if model == BUNDLED_MODEL else "cuda")


def _scaling(replicas: str) -> dict[str, int]:
    found = re.fullmatch(r"(\d+)(?::(\d+))?", replicas)
    if not found:
        raise typer.BadParameter(f"--replicas: write MIN:MAX, such as 1:4, not {replicas!r}")
    return {"min_replicas": int(found[1]), "max_replicas": int(found[2] or found[1])}


def _name(model: str) -> str:
    """The model's name, with characters replaced that a deployment's name cannot have."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", model).lstrip("._-")[:64] or "model"


def _shipped(file: str) -> Path:
    try:
        return shipped_file(file)
    except typer.BadParameter as error:
        raise typer.BadParameter(f"{file}: there is no such file; {error}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not content.get("applications"):
        first = content[0] if isinstance(content, list) and content else content
        moves = (move for key, move in _MOVES if isinstance(first, dict) and key in first)
        raise ConfigError(
            f"{path}: has no applications; {next(moves, 'see')} "
            "`reward-serve deployments show judge`"
        )
    return content
