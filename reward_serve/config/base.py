"""The base class of configuration sections, and readable messages for validation errors."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

INGRESS_NAME = "ingress"
"""The name of the HTTP deployment, reserved for it."""

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class ConfigError(ValueError):
    """A deployments file is invalid; the message names the field and the remedy."""


class Section(BaseModel):
    """A section of the file; unknown fields and non-finite numbers are rejected."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class ConfigFaults:
    """Formats validation errors: the field, its value, and the remedy or the right place.

    Attributes:
        top: the outermost section.
        place: the name of its place.
    """

    top: type[BaseModel]
    place: str = "args"

    def explain(self, error: ValidationError) -> str:
        """All errors in one line."""
        return "; ".join(self._explain(fault) for fault in error.errors(include_url=False))

    def _explain(self, fault: ErrorDetails) -> str:
        path, trail = self._follow(fault["loc"])
        shown = ".".join(path)
        message = fault["msg"].removeprefix("Value error, ")
        if not path:
            return message
        if fault["type"] == "extra_forbidden":
            return f"{shown}: unknown field; {_hint(path, trail)}"
        if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
            model = fault["input"]
            found = model.get("kind") if isinstance(model, dict) else model
            known = ", ".join(map(repr, _kinds(trail[-1][1])))
            return f"{shown}.kind: must be one of {known} (found {found!r})"
        if fault["type"] in ("missing", "value_error"):
            return f"{shown}: {message}"
        return f"{shown}: {message} (found {fault['input']!r})"

    def _follow(self, loc: tuple[int | str, ...]) -> tuple[list[str], list[tuple[str, Any]]]:
        """The path in the file, and the annotation at each step with the path up to it."""
        path: list[str] = []
        annotation: Any = self.top
        trail = [(self.place, annotation)]
        for part in loc:
            if get_origin(annotation) in _UNIONS:
                annotation = _kinds(annotation).get(part)  # pydantic's tag, not a field
            else:
                path.append(str(part))
                if _is_section(annotation):
                    field = annotation.model_fields.get(str(part))
                    annotation = field and field.annotation
                else:
                    annotation = next(reversed(get_args(annotation)), None)  # an entry
            annotation = _bare(annotation)
            trail.append((".".join(path), annotation))
        return path, trail


_UNIONS = (Union, UnionType)


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _bare(annotation: Any) -> Any:
    """The annotation without ``Annotated`` and ``None``."""
    origin = get_origin(annotation)
    inner = [each for each in get_args(annotation) if each is not NoneType]
    if origin is Annotated or (origin in _UNIONS and len(inner) == 1):
        return _bare(inner[0])
    return annotation


def _held(annotation: Any) -> Iterator[type[BaseModel]]:
    if _is_section(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from _held(inner)


def _kinds(union: Any) -> dict[int | str, type[BaseModel]]:
    return {
        kind: section
        for section in _held(union)
        if "kind" in section.model_fields
        for kind in get_args(section.model_fields["kind"].annotation)
    }


def _below(section: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The nested sections of a section, each with its field's name."""
    for name, field in section.model_fields.items():
        for held in _held(field.annotation):
            yield name, held
            yield from _below(held)


def _hint(path: list[str], trail: list[tuple[str, Any]]) -> str:
    """A suggestion for an unknown field: a similar name, or the section that it belongs to."""
    *parents, name = path
    sections = [(label, each) for label, each in reversed(trail) if _is_section(each)]
    owners: list[str] = []
    for label, section in sections:  # the innermost first
        # A section on the path belongs to another kind of model, which has this field.
        below = (owner for owner, each in _below(section) if name in each.model_fields)
        inside = dict.fromkeys(owner for owner in below if owner not in parents)
        owners = owners or ([label] if name in section.model_fields else list(inside))
    # A name that exists in another section is more likely misplaced than misspelt.
    cutoff = 0.8 if owners else 0.6
    near = difflib.get_close_matches(name, sorted(sections[0][1].model_fields), 1, cutoff)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"it belongs to {' or '.join(owners)}" if owners else "remove it"
