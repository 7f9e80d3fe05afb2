"""``--set PATH=VALUE``: sets any field of a deployments file by its path.

>>> content = {"applications": [{"args": {"models": [{"name": "judge"}]}}]}
>>> set_field(content, "judge.max_tokens=64")
>>> content["applications"][0]["args"]["models"][0]["judge"]
{'max_tokens': 64}
"""

from __future__ import annotations

from typing import Any

import typer
import yaml

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
