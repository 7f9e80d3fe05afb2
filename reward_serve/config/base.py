"""The base class of configuration sections, and readable messages for validation errors."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from reward_serve.schema import hint

INGRESS_NAME = "ingress"
"""The name of the HTTP deployment, reserved for it."""

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class ConfigError(ValueError):
    """A deployments file is invalid; the message names the field and the remedy."""


class Section(BaseModel):
    """A section of the file; unknown fields and non-finite numbers are rejected."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)


def faults_of(error: ValidationError, top: type[BaseModel]) -> str:
    """All validation errors in one line: each field, its value, and the remedy.

    Args:
        error: the errors.
        top: the outermost section.
    """
    return "; ".join(_explain(fault, top) for fault in error.errors(include_url=False))


def _explain(fault: ErrorDetails, top: type[BaseModel]) -> str:
    path, annotation = _follow(fault["loc"], top)
    shown = ".".join(path)
    message = fault["msg"].removeprefix("Value error, ")
    if not path:
        return message
    if fault["type"] == "extra_forbidden":
        _, section = _follow(fault["loc"][:-1], top)
        fields = section.model_fields if _is_section(section) else {}
        (kind,) = get_args(fields["kind"].annotation) if "kind" in fields else ("",)
        of_kind = f" of kind: {kind}" if kind else ""
        return f"{shown}: unknown field{of_kind}; {hint(path[-1], fields)}"
    if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
        model = fault["input"]
        found = model.get("kind") if isinstance(model, dict) else model
        known = ", ".join(map(repr, _kinds(annotation)))
        return f"{shown}.kind: must be one of {known} (found {found!r})"
    if fault["type"] in ("missing", "value_error"):
        return f"{shown}: {message}"
    return f"{shown}: {message} (found {fault['input']!r})"


def _follow(loc: tuple[int | str, ...], top: type[BaseModel]) -> tuple[list[str], Any]:
    """The path in the file, and the annotation of what is there."""
    path: list[str] = []
    annotation: Any = top
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
    return path, annotation


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
