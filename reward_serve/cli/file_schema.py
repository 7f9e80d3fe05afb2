"""The deployments file's schema: Ray Serve's, but unknown fields are errors.

The default host is 127.0.0.1; ``serve run`` listens on all interfaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic.json_schema import models_json_schema
from ray.serve.schema import HTTPOptionsSchema, ServeApplicationSchema, ServeDeploySchema

from reward_serve.config.app import AppConfig, GatewayConfig, parse_config, parse_gateway
from reward_serve.config.base import ConfigError, Section, faults_of
from reward_serve.config.resolve import resolve
from reward_serve.rubrics import Rubric
from reward_serve.templates import Template

_CHECKS: dict[str, tuple[type[Section], Callable[[dict[str, Any]], object]]] = {
    "reward_serve.app:build_app": (AppConfig, lambda args: resolve(parse_config(args))),
    "reward_serve.app:build_gateway": (GatewayConfig, parse_gateway),
}


class _HttpOptions(HTTPOptionsSchema):  # type: ignore[misc]  # Ray is untyped
    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8000, ge=1, le=65535)


class _Application(ServeApplicationSchema):  # type: ignore[misc]  # Ray is untyped
    route_prefix: Annotated[str, Field(pattern=r"^/([^{}]*[^{}/])?$")] | None = "/"


class _File(ServeDeploySchema):  # type: ignore[misc]  # Ray is untyped
    http_options: _HttpOptions = _HttpOptions()
    applications: list[_Application]


def checked(content: dict[str, Any]) -> dict[str, Any]:
    """Validate a deployments file's content; returns it with an explicit HTTP host.

    Raises:
        ConfigError: a field is invalid; the message lists each with its value and the remedy.
    """
    try:
        file = _File.model_validate(content, extra="forbid")
    except ValidationError as error:
        raise ConfigError(faults_of(error, _File)) from None
    for place, application in enumerate(file.applications):
        path = application.import_path
        if path in _CHECKS:
            _CHECKS[path][1](application.args)
        elif path.partition(":")[0].partition(".")[0] == "reward_serve":
            known = " or ".join(_CHECKS)
            raise ConfigError(f"applications.{place}.import_path: must be {known} (found {path!r})")
    http = content.get("http_options", {})
    return content | {"http_options": {"host": file.http_options.host, **http}}


def json_schema(of: Literal["deployment", "template", "rubric"]) -> dict[str, Any]:
    """The JSON schema of a deployments file, a judging template or a rubric file."""
    if of == "rubric":
        return Rubric.json_schema()
    if of == "template":
        schema = Template.model_json_schema()
        for derived in ("name", "digest"):  # from the file's name and content
            schema["properties"].pop(derived)
            schema["required"].remove(derived)
        return schema
    sections: list[Any] = [_File, *(section for section, _ in _CHECKS.values())]
    references, schema = models_json_schema([(section, "validation") for section in sections])
    for each in schema["$defs"].values():
        if "properties" in each:
            each.setdefault("additionalProperties", False)
    schema["$defs"]["_Application"]["allOf"] = [
        {
            "if": {"properties": {"import_path": {"const": path}}},
            "then": {"properties": {"args": references[section, "validation"]}},
        }
        for path, section in zip(_CHECKS, sections[1:], strict=True)
    ]
    return schema | references[_File, "validation"]
