"""Profiles of model families: what ``reward-serve serve MODEL`` sets for a model that it knows.

A profile is a file of ``reward_serve/profiles``, whose section ``model`` is merged into the model
of the closest shipped deployments file; nothing else reads profiles.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import reward_serve
from reward_serve.config.base import ConfigError
from reward_serve.engines.checkpoint import is_folder

FOLDER = Path(reward_serve.__file__).parent / "profiles"
_REWARD = r"(?:gen|armo|[gopqu])?rm|reward(?:model)?"
_OTHER_KINDS = re.compile(
    rf"(?<![a-z0-9])(?:base|r1|(?:safe)?guard|embedding|({_REWARD}))(?![a-z0-9])"
)


class Profile(NamedTuple):
    """What is known of a model family: the content of a profile's file."""

    name: str
    known: str  # the one of models by which it was found
    models: dict[str, float | None]  # hub ids, or names at an endpoint, to GiB of weights
    about: str  # how the family judges, and why
    read: str  # what was read, and where
    run: str  # what was run here
    model: dict[str, Any]  # fields of a deployments file's model; none if it cannot be served
    prompt: dict[str, Any] | None = None  # of a verifier: its fields' names, and its template


def find_profile(model: str) -> Profile | None:
    """The profile with the longest name that is part of the model's; an endpoint's is all of it.

    Tuned and quantized models are named like that, and keep their family's chat template; a name
    that says of another kind of model what the profile's does not is of no profile. A model that
    is known as one that cannot be served raises ConfigError.
    """
    by_name, of_folder, asked = {}, is_folder(model), _asked(model)
    for path in FOLDER.glob("*.yaml"):
        content = yaml.safe_load(path.read_bytes())
        for known in content["models"]:
            owner, _, name = known.lower().rpartition("/")
            pattern = re.escape(name).replace(r"\*", ".*")
            part = rf"(?<![a-z0-9.]){pattern}(?![a-z0-9.])" if owner else rf"\A{pattern}\Z"
            other = _OTHER_KINDS.search(asked.replace(name.rstrip("*"), ""))
            if re.search(part, asked) and (owner or not of_folder) and not other:
                by_name[name] = Profile(path.stem, known, **content)
    closest = by_name[max(by_name, key=len)] if by_name else None
    if closest and not closest.model:
        raise ConfigError(f"{model}: {closest.about}")
    return closest


def reward_word(model: str) -> str | None:
    """The word of its name, such as RM, by which a model is a reward model."""
    return next(filter(None, _OTHER_KINDS.findall(_asked(model))), None)


def _asked(model: str) -> str:
    return (Path(model).expanduser().resolve().name if is_folder(model) else model).lower()


def card_template(name: str, prompt: dict[str, Any], path: Path) -> dict[str, Any]:
    """The fields of ``judge`` for a verifier: a template with its card's prompt, from a text file.

    Raises:
        ConfigError: the file cannot be read, or lacks a field's placeholder.
    """
    try:
        user = path.read_text(encoding="utf-8").strip()
        for field, names in prompt["fields"].items():
            any_of = "|".join([field, *names])
            user, count = re.subn(rf"(?i)\{{+(?:{any_of})\}}+", f"{{{field}}}", user)
            if count != 1:
                raise ValueError(f"must have {{{names[0]}}} once, where the {field} belongs")
    except (OSError, ValueError) as error:
        raise ConfigError(f"--prompt {path}: {error}") from None
    data = {"description": f"{name}'s card", "system": "", "user": user, **prompt["template"]}
    return {"template": f"{name}.yaml", "template_data": data}
