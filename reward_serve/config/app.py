"""The whole of ``args``: an application's reward models and its HTTP side, or a gateway's.

>>> config = parse_config({"models": [{"name": "judge", "kind": "judge"}]})
>>> config.models[0].resources.num_cpus
2.0
"""

import re
from collections import Counter
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from reward_serve.config.base import ConfigError, ConfigFaults, Count, Section
from reward_serve.config.models import (
    ClassifierModel,
    JudgeModel,
    ModelConfig,
    PanelModel,
    RemoteModel,
)

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_Config = TypeVar("_Config", bound=Section)


class ServerConfig(Section):
    """The HTTP side."""

    num_replicas: Count = 1
    max_ongoing_requests: Count = 1024
    max_batch_items: Count = 1024
    max_body_bytes: Count = 32 * 2**20
    api_keys_file: str | None = Field(
        None,
        min_length=1,
        description="a file of lines 'name: key', read once, where Serve builds the application; "
        "with no keys from here or api_keys_env, whoever reaches the port may ask",
    )
    api_keys_env: str | None = Field(
        None,
        min_length=1,
        description="a variable that says 'name=key,name2=key2', read as the file is",
    )
    max_concurrent_items_per_key: Count | None = Field(
        None, description="items that a key may have in flight through one ingress replica"
    )
    aliases: dict[str, str] = Field(
        default_factory=dict,
        description="other names by which callers know a reward model; its checkpoint's hub id is "
        "one by itself, unless several models serve that",
    )
    compatible_with: set[Literal["openai", "openrlhf", "slime"]] = Field(
        default_factory=set,
        description="whose clients are answered too: /v1/chat/completions, /get_reward, /remote_rm",
    )
    absent_reward: float | None = Field(
        None,
        description="what /get_reward and /remote_rm, which have no word for it, say where there "
        "is no score; null: the request fails, and the trainer retries",
    )

    explain: bool = Field(
        True, description="whether /v1/explain, by HTTP and by handle, says why results are so"
    )
    max_concurrent_explanations: Count = Field(
        2, description="explanations at once by a replica of a model; beyond it they are refused"
    )

    @model_validator(mode="after")
    def _a_limit_per_key_has_keys(self) -> Self:
        if self.max_concurrent_items_per_key and not (self.api_keys_file or self.api_keys_env):
            raise ValueError(
                "max_concurrent_items_per_key: there are no keys; set api_keys_file or api_keys_env"
            )
        return self

    @property
    def explanations(self) -> int:
        """How many explanations a replica takes at once; 0 where they are off."""
        return self.max_concurrent_explanations if self.explain else 0


class _Args(Section):
    """What every ``args`` has."""

    models: list[Any]
    server: ServerConfig = Field(default_factory=ServerConfig)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [model.name for model in self.models]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"models: the name {repeated[0]!r} is given twice; rename one")
        for alias, name in self.server.aliases.items():
            if name not in names:
                raise ValueError(
                    f"server.aliases.{alias}: there is no model {name!r}; choose of "
                    f"{', '.join(names)}"
                )
            if alias in names:
                raise ValueError(f"server.aliases.{alias}: is a model's name; leave it out")
        return self


class AppConfig(_Args):
    """``args`` of one Serve application."""

    models: list[ModelConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _checkpoints_are_aliases(self) -> Self:
        """A checkpoint's hub id names the model that serves it, unless several do."""
        served = [
            (checkpoint, model.name) for model in self.models if (checkpoint := _id_of(model))
        ]
        counts = Counter(checkpoint for checkpoint, _ in served)
        names = {model.name for model in self.models}
        found = {c: name for c, name in served if counts[c] == 1 and c not in names}
        self.server.aliases = {**found, **self.server.aliases}
        return self

    @model_validator(mode="after")
    def _panels_have_their_members(self) -> Self:
        kinds = {model.name: model.kind for model in self.models}
        for panel in (model for model in self.models if isinstance(model, PanelModel)):
            for member in panel.panel.members:
                if member.application is None and kinds.get(member.model) in (None, "panel"):
                    known = [name for name, kind in kinds.items() if kind != "panel"]
                    raise ValueError(
                        f"models: the panel {panel.name!r} asks {member.model!r}, which is none "
                        f"of {', '.join(known) or 'no other models'}; add it, or say in which "
                        "application it is"
                    )
        return self


def _id_of(model: ModelConfig) -> str | None:
    """What the hub or the endpoint calls the model's checkpoint; None for a folder."""
    if isinstance(model, RemoteModel):
        return model.remote.model
    if isinstance(model, JudgeModel | ClassifierModel) and _HUB_ID.fullmatch(model.engine.model):
        return model.engine.model
    return None


class GatewayModel(Section):
    """A reward model that a gateway passes requests on to."""

    name: str = Field(min_length=1, description="the deployment's, which callers ask for")
    application: str = Field(min_length=1, description="the Serve application it is in")


class GatewayConfig(_Args):
    """``args`` of a gateway: one door for the models of several applications."""

    models: list[GatewayModel] = Field(min_length=1, description="the first is the default")


def parse_config(args: dict[str, Any]) -> AppConfig:
    """Read ``args`` of a deployments file.

    Raises:
        ConfigError: names each field at fault, what was found and what would be right.
    """
    return _parse(AppConfig, args)


def parse_gateway(args: dict[str, Any]) -> GatewayConfig:
    """Read ``args`` of a gateway; raises as ``parse_config``."""
    return _parse(GatewayConfig, args)


def _parse(section: type[_Config], args: dict[str, Any]) -> _Config:
    try:
        return section.model_validate(args)
    except ValidationError as error:
        raise ConfigError(f"args: {ConfigFaults(section).explain(error)}") from None
