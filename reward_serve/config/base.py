"""The base class of configuration sections, and readable messages for validation errors."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from reward_serve.schema import hint

INGRESS_NAME = "ingress"  # of the HTTP deployment, reserved for it

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class ConfigError(ValueError):
    """A deployments file is invalid; the message names the field and the remedy."""


class Section(BaseModel, extra="forbid", protected_namespaces=(), allow_inf_nan=False):
    """A section of the file; unknown fields and non-finite numbers are rejected."""


# What is often written in place of these fields.
_MEANT = {
    "api_keys_env": ["api_key_env", "api_keys_env"],  # of a remote model, of the server
    "api_keys_file": ["api_key_file", "api_keys_file"],
    "cpus": ["num_cpus"],
    "gpus": ["num_gpus"],
    "num_replicas": ["min_replicas", "max_replicas"],
    "replicas": ["min_replicas", "max_replicas"],
    "url": ["base_url"],
}
_ELSEWHERE = {
    "host": "http_options.host, at the top of the file",
    "port": "http_options.port, at the top of the file",
    "models": "args.models of an application",
    "server": "args.server of an application",
}
_UNIONS = (Union, UnionType)
_LIST = ("a list", "start each entry with '- '")
_MAPPING = ("a mapping", "write its fields indented below it, as 'field: value' without '- '")
_SHAPES = {
    **dict.fromkeys(["list_type", "set_type", "tuple_type"], _LIST),
    **dict.fromkeys(["dict_type", "model_type", "model_attributes_type"], _MAPPING),
}


def faults_of(error: ValidationError, top: type[BaseModel]) -> str:
    """All errors of an outermost section in one line: each field, its value, and the remedy."""
    return "; ".join(_explain(fault, top) for fault in error.errors(include_url=False))


def _explain(fault: ErrorDetails, top: type[BaseModel]) -> str:
    path, annotation = _follow(fault["loc"], top)
    field, kind, value = ".".join(path), fault["type"], fault["input"]
    message = fault["msg"].removeprefix("Value error, ")
    if not path:
        return message
    if kind == "extra_forbidden":
        return f"{field}: unknown field{_remedy(fault['loc'], top)}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        known = ", ".join(map(repr, _kinds(annotation)))
        return f"{field}.kind: must be one of {known} (found {_in_words(value.get('kind'))})"
    if shape := _SHAPES.get(kind):
        return f"{field}: must be {shape[0]} (found {_in_words(value)}); {shape[1]}"
    if kind == "missing":
        return f"{field}: is missing; add '{path[-1]}: ...' to {'.'.join(path[:-1]) or 'args'}"
    if kind == "value_error":
        return f"{field}: {message}"
    return f"{field}: {message} (found {value!r})"


def _in_words(value: Any) -> str:
    return {NoneType: "nothing", dict: "a mapping", list: "a list"}.get(type(value), repr(value))


def _remedy(loc: tuple[int | str, ...], top: type[BaseModel]) -> str:
    """What to do about an unknown field, after the section's kind if it has one."""
    name = str(loc[-1])
    _, section = _follow(loc[:-1], top)
    fields = section.model_fields if _is_section(section) else {}
    of_kind = ""
    if "kind" in fields:
        of_kind = f" of kind: {loc[-2]}"
        kinds = _kinds(_follow(loc[:-2], top)[1])
        kinds.pop("remote", None)  # another name of judge
        if having := [str(kind) for kind, part in kinds.items() if name in part.model_fields]:
            return f"{of_kind}; remove it, or set kind: {' or '.join(having)}"
    names = _MEANT.get(name, [name])
    for end in reversed(range(len(loc))):  # the innermost section that has such a field
        if places := list(_places(names, *_follow(loc[:end], top))):
            return f"{of_kind}; move it to {' or '.join(places)}"
    if name in _ELSEWHERE:
        return f"{of_kind}; move it to {_ELSEWHERE[name]}"
    return f"{of_kind}; {hint(name, fields)}"


def _places(names: list[str], path: list[str], section: Any) -> Iterator[str]:
    """The paths of the fields with these names, in a section and those within it."""
    for name, field in section.model_fields.items() if _is_section(section) else ():
        inner = [*path, name]
        if name in names:
            yield ".".join(inner)
        yield from _places(names, inner, _bare(field.annotation))


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


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _bare(annotation: Any) -> Any:
    """The annotation without ``Annotated`` and ``None``."""
    origin = get_origin(annotation)
    inner = [part for part in get_args(annotation) if part is not NoneType]
    if origin is Annotated or (origin in _UNIONS and len(inner) == 1):
        return _bare(inner[0])
    return annotation


def _kinds(union: Any) -> dict[int | str, type[BaseModel]]:
    return {
        kind: section
        for section in get_args(union)
        if _is_section(section) and "kind" in section.model_fields
        for kind in get_args(section.model_fields["kind"].annotation)
    }
