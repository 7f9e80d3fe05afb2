"""Checks of the file's YAML, field names and field types."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from reward_serve.templates import (
    FILE_SUFFIXES,
    GROUPS,
    RUBRICS,
    GenerateForm,
    LabelForm,
    Template,
    parse_template,
    template_names,
)
from reward_serve_lab.linting.finding import Finding

_SECTIONS: dict[str, type[BaseModel]] = {"label": LabelForm, "generate": GenerateForm}
_FILLED_IN = ("name", "digest")


def read_data(path: Path) -> dict[str, Any] | Finding:
    """The file's content, or the finding that it cannot be read."""
    try:
        data = yaml.safe_load(path.read_bytes())
    except OSError as error:
        return Finding("file", f"cannot be read: {error.strerror}", "give the path of a file")
    except (yaml.YAMLError, UnicodeError) as error:
        shown = " ".join(str(error).split())
        return Finding(
            "file", f"is not YAML: {shown}", "quote text with colons, or write it below '|-'"
        )
    if not isinstance(data, dict):
        return Finding(
            "file",
            f"contains {type(data).__name__}",
            "write fields: system, user, generate and so on",
        )
    return data


def check_name(path: Path) -> Iterator[Finding]:
    """The file name must end in .yaml and differ from every shipped template's name."""
    if path.suffix not in FILE_SUFFIXES:
        remedy = "rename it to end in .yaml: judge.template recognises files by their suffix"
        yield Finding("file", f"is named {path.name!r}", remedy)
    if path.stem in (*template_names(), *template_names(GROUPS), *template_names(RUBRICS)):
        yield Finding("file", f"{path.stem!r} is a shipped template's name", "rename the file")


def check_fields(name: str, data: dict[str, Any]) -> Iterator[Finding]:
    """The faults for which a deployment refuses the template."""
    for field in _FILLED_IN:
        if field in data:
            remedy = "remove it: it is derived from the file's name and content"
            yield Finding(field, "is set", remedy)
    given = {key: value for key, value in data.items() if key not in _FILLED_IN}
    try:
        parse_template(name, given)
    except ValidationError as error:
        yield from map(_finding, error.errors(include_url=False))


def _finding(fault: ErrorDetails) -> Finding:
    if fault["type"] == "value_error":  # of a section: "user: must contain ...; or ..."
        last, _, message = fault["msg"].removeprefix("Value error, ").partition(": ")
        parents = [*map(str, fault["loc"])]
        found, _, remedy = message.partition("; ")
        remedy = remedy or f"write {_description(parents, last)}"
        return Finding(".".join((*parents, last)), found, remedy)
    *parents, last = map(str, fault["loc"])
    field = ".".join((*parents, last))
    if fault["type"] == "missing":
        description = _description(parents, last)
        return Finding(field, "is missing", f"add it: {description}" if description else "add it")
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(last, [*_owner(parents).model_fields], n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "remove it"
        return Finding(field, "is unknown", remedy)
    if last == "[key]":
        label = fault["input"]
        remedy = f'quote it: "{label}"'
        return Finding(".".join(parents[:-1]), f"YAML does not read {label!r} as text", remedy)
    found = f"{fault['input']!r:.60}"
    return Finding(field, found, fault["msg"].replace("Input should", "it should"))


def _owner(parents: list[str]) -> type[BaseModel]:
    return _SECTIONS.get(parents[0], Template) if parents else Template


def _description(parents: list[str], field: str) -> str:
    known = _owner(parents).model_fields.get(field)
    return (known.description or "") if known else ""
