"""Builds a deployments file from the options of ``reward-serve serve``.

Options are applied to the closest shipped file, which supplies the defaults.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
import yaml

from reward_serve.cli.profiles import Profile, card_template, find_profile, reward_word
from reward_serve.cli.shipped import shipped_file
from reward_serve.config.base import ConfigError
from reward_serve.config.engine import BUNDLED_MODEL
from reward_serve.config.resolve import Build, installed_build
from reward_serve.engines.checkpoint import is_folder
from reward_serve.templates import FILE_SUFFIXES

if TYPE_CHECKING:
    from reward_serve.cli.file_schema import DeploymentsFile

Kind = Literal["judge", "classifier", "remote"]

_BUNDLED_GPU_SHARE = 0.1
_NEAREST = {"judge": "judge-gpu.yaml", "classifier": "classifier.yaml", "remote": "openai.yaml"}
_FIELDS = {
    "template": "judge.template",
    "mode": "judge.mode",
    "device": "engine.device",
    "tp": "engine.tensor_parallel_size",
    "gpus": "resources.num_gpus",
    "replicas": "autoscaling",
}
"""The field of a model that an option sets."""
_PATH = re.compile(
    r"(api_keys?_file|folder): [^~].*|(adapter|model): \.\.?/.*|template: [^~].*\.ya?ml"
)
_FILE = ("applications", "http_options", "grpc_options", "logging_config", "proxy_location")
_ARGS = ("models", "server")


def deployments_file(
    model: str,
    of_model: Mapping[str, Any],
    host: str | None = None,
    port: int | None = None,
    api_keys_file: Path | None = None,
    fields: Sequence[str] = (),
) -> DeploymentsFile:
    """Build and validate the deployments file.

    Args:
        model: ``bundled``, a folder, a hub id, or a deployments file.
        of_model: the given ones of ``kind``, ``template``, ``prompt``, ``mode``, ``device``,
            ``tp``, ``gpus`` and ``replicas``, by name; only where ``model`` is no file.
        host: address to listen on.
        port: port to listen on.
        api_keys_file: file of API keys, for every application with a route.
        fields: fields to set, each as ``PATH=VALUE``.

    Raises:
        typer.BadParameter: an option does not apply, or the file does not exist.
        ConfigError: a field is invalid; the message has the remedy.
    """
    from reward_serve.cli.file_schema import checked  # imports Ray, which takes a second

    if not model.endswith(FILE_SUFFIXES):
        content = _file_of(model, of_model)
    elif of_model:
        raise typer.BadParameter(
            f"--{next(iter(of_model))}: does not apply to a deployments file; use --set, or edit "
            f"{model}"
        )
    else:
        path = Path(model)
        written = _located(_read(path), path.absolute().parent) if path.is_file() else None
        content = checked(written or _read(shipped_file(model))).content
    http = {"host": host, "port": port}
    content.setdefault("http_options", {}).update({k: v for k, v in http.items() if v is not None})
    for application in content["applications"]:
        is_ours = application["import_path"].startswith("reward_serve.app:")
        if api_keys_file and is_ours and application.get("route_prefix", "/") is not None:
            server = application["args"].setdefault("server", {})
            server["api_keys_file"] = str(api_keys_file.absolute())
    for field in fields:
        set_field(content, field)
    return checked(content)


def note(model: str, options: Mapping[str, Any]) -> str:
    """What the model's profile is, or what is assumed without one; empty for any other."""
    if model == BUNDLED_MODEL or model.endswith(FILE_SUFFIXES):
        return ""
    if (profile := _profile_of(model, options)) is None:
        if options.get("kind") == "remote":
            return f"{model} has no profile: it is asked at remote.base_url, OpenAI by default"
        return (
            f"{model} has no profile of this kind: it is taken for a folder or a hub id (for an "
            "endpoint's model give --kind remote), with a context of 4,096 tokens, and a judge "
            "answers without thinking; one that thinks needs --mode generate"
        )
    gib = profile.models[profile.known]
    weights = f"; its weights take {gib:g} GiB a replica" if gib else ""
    return (
        f"profile {profile.name}, by the name of {profile.known}{weights}: {profile.about}; read: "
        f"{profile.read}; run: {profile.run}"
    )


def _profile_of(model: str, options: Mapping[str, Any]) -> Profile | None:
    profile = None if model == BUNDLED_MODEL else find_profile(model)
    return profile if profile and options.get("kind") in (None, profile.model["kind"]) else None


def _file_of(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the file that serves this model."""
    is_bundled, profile = model == BUNDLED_MODEL, _profile_of(model, options)
    if profile is None and "kind" not in options and (word := reward_word(model)):
        raise ConfigError(
            f"{model}: {word!r} in its name says that it is a reward model, and no profile knows "
            "it: give --kind classifier if it returns a logit (a sequence classifier), --kind "
            "judge if it writes a verdict"
        )
    kind = profile.model["kind"] if profile else options.get("kind", "judge")
    content = _read(shipped_file("judge.yaml" if is_bundled else _NEAREST[kind]))
    (section,) = content["applications"][0]["args"]["models"]
    device = options.get("device") or _device(is_bundled, options)
    if kind == "remote":
        if engines := sorted(options.keys() & {"device", "tp", "gpus"}):
            raise ConfigError(f"--{engines[0]}: {model} runs at an endpoint; leave it out")
        section |= {"name": _name(model), "remote": {"model": model}}  # the rest was another's
    elif not is_bundled:
        engine = section["engine"]
        folder = Path(model).expanduser().resolve() if is_folder(model) else None
        section["name"] = _name(folder.name if folder else model.rpartition("/")[2])
        engine |= {"model": str(folder or model), "dtype": "auto", "device": device}
        if device == "cpu":
            del engine["max_num_seqs"]  # sized for a GPU
        elif gib := profile and profile.models[profile.known]:  # 64 of a GPU's 80 GB; 16 for KV
            engine["tensor_parallel_size"] = 2 ** max(0, math.ceil(math.log2(gib / 64)))
    elif device == "cuda" and "tp" not in options:
        options = {"gpus": _BUNDLED_GPU_SHARE, **options}
    for field, value in profile.model.items() if profile else ():
        section[field] = {**section[field], **value} if isinstance(value, dict) else value
    _set_template(section, profile, options)
    for option in options.keys() & _FIELDS:
        value = options[option]
        if option == "template" and value.endswith(FILE_SUFFIXES):
            value = str(Path(value).resolve())
        _set(section, _FIELDS[option], _scaling(value) if option == "replicas" else value)
    return content


def _set_template(section: Any, profile: Profile | None, options: Mapping[str, Any]) -> None:
    """Set a verifier's template; refuse prompts and modes that the model was not trained for."""
    given, prompt = options.keys() & {"template", "prompt"}, profile and profile.prompt
    if profile and prompt and not given:
        raise ConfigError(
            f"{section['name']} was trained on the prompt of its card: save that prompt as a text "
            "file and give --prompt FILE"
        )
    if "prompt" in given and (not prompt or "template" in given):
        raise ConfigError(
            "--prompt: takes the card's prompt of a trained verifier; for another prompt give "
            "--template FILE alone, a judging template"
        )
    if given:
        section.setdefault("judge", {}).pop("rules_first", None)  # the template may have no rules
    if profile and prompt and "prompt" in given:
        section["judge"] |= card_template(profile.name, prompt, Path(options["prompt"]))
    judge, mode = section.get("judge", {}), options.get("mode")
    fixed = "mode" not in judge.get("allowed_options", ["mode"])
    if profile and fixed and mode not in (None, judge["mode"]):
        raise ConfigError(f"--mode {mode}: leave it out; {profile.about}")


def _device(is_bundled: bool, options: Mapping[str, Any]) -> Build:
    """The device that ``--tp`` and ``--gpus`` imply, else that of the installed vLLM."""
    if "tp" in options or "gpus" in options:
        return "cuda" if options.get("tp") or options.get("gpus") else "cpu"
    return installed_build() or ("cpu" if is_bundled else "cuda")


def _scaling(replicas: str) -> dict[str, int]:
    match = re.fullmatch(r"(\d+)(?::(\d+))?", replicas)
    if not match:
        raise typer.BadParameter(f"--replicas: write MIN:MAX, such as 1:4, not {replicas!r}")
    return {"min_replicas": int(match[1]), "max_replicas": int(match[2] or match[1])}


def _name(model: str) -> str:
    """The model's name, with characters replaced that a deployment's name cannot have."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", model).lstrip("._-")[:64] or "model"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not content.get("applications"):
        raise ConfigError(
            f"{path}: has no applications; write them as in `reward-serve deployments show judge`"
        )
    return content


def _located(value: Any, folder: Path, field: str = "") -> Any:
    """The value of a field of the file in ``folder``, with relative paths made absolute."""
    if isinstance(value, dict):
        by_name = "template" if field == "rubrics" else ""
        return {name: _located(item, folder, by_name or name) for name, item in value.items()}
    if isinstance(value, list):
        return [_located(item, folder) for item in value]
    return str(folder / value) if _PATH.fullmatch(f"{field}: {value}") else value


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
    path, equals, text = (part.strip() for part in assignment.partition("="))
    try:
        if not equals or "" in path.split("."):
            raise ValueError("write PATH=VALUE, such as judge.mode=label")
        _set(_start(content, path.partition(".")[0]), path, yaml.safe_load(text))
    except yaml.YAMLError:
        raise typer.BadParameter(f"--set {assignment}: {text!r} is not YAML; quote it") from None
    except ValueError as error:
        raise typer.BadParameter(f"--set {assignment}: {error}") from None


def _set(place: Any, path: str, value: Any) -> None:
    """Set the field at a path below a section or a list; sections that it lacks are added."""
    key, _, rest = path.partition(".")
    index: Any = int(key) if isinstance(place, list) and key.isdecimal() else key
    if rest and isinstance(place, dict) and place.get(key) is None:
        place[key] = {}
    try:
        if rest:
            return _set(place[index], rest, value)
        place[index] = value
    except (IndexError, TypeError):
        raise ValueError(f"{key!r} is not in a section, or not an entry of the list") from None


def _start(content: dict[str, Any], first: str) -> Any:
    """Where a path with this first key begins."""
    if first in _FILE:
        return content
    applications = content["applications"]
    what, several, start = "applications", applications, "applications.0.args"
    if len(applications) == 1:
        args = applications[0].setdefault("args", {})
        if first in _ARGS:
            return args
        what, several, start = "models", args.get("models") or [], "models.0"
    if len(several) == 1:
        return several[0]
    raise ValueError(
        f"there are {len(several)} {what}; begin the path with {start}, or another number"
    )
