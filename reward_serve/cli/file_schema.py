"""A deployments file as one typed value, and its schema.

The schema is Ray Serve's, but unknown fields are errors, and the default host is 127.0.0.1, where
``serve run`` listens on all interfaces.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic.json_schema import models_json_schema
from ray.serve.schema import HTTPOptionsSchema, ServeApplicationSchema, ServeDeploySchema

from reward_serve.config.app import AppConfig, GatewayConfig, ServerConfig
from reward_serve.config.base import ConfigError, faults_of
from reward_serve.config.models import ModelConfig
from reward_serve.config.resolve import resolve
from reward_serve.criteria import Rubric
from reward_serve.templates import Template

_ARGS: dict[str, type[AppConfig | GatewayConfig]] = {
    "reward_serve.app:build_app": AppConfig,
    "reward_serve.app:build_gateway": GatewayConfig,
}


class _HttpOptions(HTTPOptionsSchema):  # type: ignore[misc]  # Ray is untyped
    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8000, ge=1, le=65535)


class _Application(ServeApplicationSchema):  # type: ignore[misc]  # Ray is untyped
    route_prefix: Annotated[str, Field(pattern=r"^/([^{}]*[^{}/])?$")] | None = "/"

    @cached_property
    def config(self) -> AppConfig | GatewayConfig | None:
        """Its parsed ``args``; None if another project builds it."""
        if self.import_path not in _ARGS:
            return None
        config = _ARGS[self.import_path].parse(self.args)
        return resolve(config) if isinstance(config, AppConfig) else config


class DeploymentsFile(ServeDeploySchema):  # type: ignore[misc]  # Ray is untyped
    """A valid deployments file, with an explicit HTTP host."""

    http_options: _HttpOptions = _HttpOptions()
    applications: list[_Application]

    @model_validator(mode="after")
    def _host_is_explicit(self) -> Self:
        self.http_options = self.http_options.model_copy(update={"host": self.http_options.host})
        return self

    @property
    def content(self) -> dict[str, Any]:
        """What is written in the file."""
        content: dict[str, Any] = self.model_dump(mode="json", exclude_unset=True)
        return content

    @property
    def names(self) -> list[str]:
        """The names of the applications."""
        return [app.name for app in self.applications]

    @property
    def models(self) -> list[ModelConfig]:
        """The reward models of all applications."""
        configs = (app.config for app in self.applications if isinstance(app.config, AppConfig))
        return [model for config in configs for model in config.models]

    @property
    def servers(self) -> list[ServerConfig]:
        """The HTTP servers of the applications that have a route."""
        routed = (app.config for app in self.applications if app.route_prefix is not None)
        return [config.server for config in routed if config]

    @property
    def is_on_every_interface(self) -> bool:
        """Whether HTTP listens on all of a machine's addresses."""
        return self.http_options.host in ("0.0.0.0", "::")

    @property
    def is_open(self) -> bool:
        """Whether other machines can score without an API key."""
        return self.http_options.host not in ("127.0.0.1", "localhost", "::1") and not all(
            server.api_keys_file or server.api_keys_env for server in self.servers
        )

    @property
    def urls(self) -> list[str]:
        """The HTTP URLs of the applications, for clients on this machine."""
        if self.proxy_location == "Disabled":
            return []
        host = "127.0.0.1" if self.is_on_every_interface else self.http_options.host
        host = f"[{host}]" if ":" in host else host
        prefixes = (app.route_prefix for app in self.applications)
        base = f"http://{host}:{self.http_options.port}"
        return [base + prefix.rstrip("/") for prefix in prefixes if prefix is not None]


def checked(content: dict[str, Any]) -> DeploymentsFile:
    """The file with this content; a ``ConfigError`` with each invalid field, value and remedy."""
    try:
        file: DeploymentsFile = DeploymentsFile.model_validate(content, extra="forbid")
    except ValidationError as error:
        raise ConfigError(faults_of(error, DeploymentsFile)) from None
    for place, application in enumerate(file.applications):
        path = application.import_path
        if application.config is None and path.startswith(("reward_serve.", "reward_serve:")):
            known = " or ".join(_ARGS)
            raise ConfigError(f"applications.{place}.import_path: must be {known} (found {path!r})")
    return file


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
    sections: list[Any] = [DeploymentsFile, *_ARGS.values()]
    references, schema = models_json_schema([(section, "validation") for section in sections])
    for definition in schema["$defs"].values():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    schema["$defs"]["_Application"]["allOf"] = [
        {
            "if": {"properties": {"import_path": {"const": path}}},
            "then": {"properties": {"args": references[section, "validation"]}},
        }
        for path, section in _ARGS.items()
    ]
    return schema | references[DeploymentsFile, "validation"]
