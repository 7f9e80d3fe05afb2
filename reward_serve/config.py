"""Everything that ``args`` of a ``deployments/*.yaml`` may say, checked when it is read.

>>> config = parse_config({"models": [{"name": "judge", "kind": "judge"}]})
>>> config.models[0].resources.num_cpus
2.0
"""

from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from reward_serve.config_base import INGRESS_NAME, ConfigError, ConfigFaults, Count, Section
from reward_serve.engines.classifier_config import ClassifierConfig
from reward_serve.engines.config import (
    BUNDLED_MODEL,
    NO_ADAPTER,
    SHIPPED_ADAPTER,
    EngineConfig,
)
from reward_serve.engines.remote_config import RemoteConfig
from reward_serve.judging.config import JudgeConfig
from reward_serve.observing.config import VerdictLogConfig
from reward_serve.reward_models.config import (
    AutoscalingConfig,
    CacheConfig,
    ClassifierModel,
    JudgeModel,
    ModelConfig,
    RemoteModel,
    ResourcesConfig,
    RuleModel,
)
from reward_serve.verifiers.config import RuleConfig

__all__ = [
    "BUNDLED_MODEL",
    "INGRESS_NAME",
    "NO_ADAPTER",
    "SHIPPED_ADAPTER",
    "AppConfig",
    "AutoscalingConfig",
    "CacheConfig",
    "ClassifierConfig",
    "ClassifierModel",
    "ConfigError",
    "EngineConfig",
    "JudgeConfig",
    "JudgeModel",
    "ModelConfig",
    "RemoteConfig",
    "RemoteModel",
    "ResourcesConfig",
    "RuleConfig",
    "RuleModel",
    "ServerConfig",
    "VerdictLogConfig",
    "parse_config",
]


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

    @model_validator(mode="after")
    def _a_limit_per_key_has_keys(self) -> Self:
        if self.max_concurrent_items_per_key and not (self.api_keys_file or self.api_keys_env):
            raise ValueError(
                "max_concurrent_items_per_key: there are no keys; set api_keys_file or api_keys_env"
            )
        return self


class AppConfig(Section):
    """``args`` of one Serve application."""

    models: list[ModelConfig] = Field(min_length=1)
    server: ServerConfig = Field(default_factory=ServerConfig)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [model.name for model in self.models]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"models: the name {repeated[0]!r} is given twice; rename one")
        return self


def parse_config(args: dict[str, Any]) -> AppConfig:
    """Read ``args`` of a deployments file.

    Raises:
        ConfigError: names each field at fault, what was found and what would be right.
    """
    try:
        return AppConfig.model_validate(args)
    except ValidationError as error:
        raise ConfigError(f"args: {_FAULTS.explain(error)}") from None


_FAULTS = ConfigFaults(
    top=AppConfig,
    kinds={
        "judge": JudgeModel,
        "classifier": ClassifierModel,
        "remote": RemoteModel,
        "rule": RuleModel,
    },
    sections={
        "engine": EngineConfig,
        "judge": JudgeConfig,
        "cache": CacheConfig,
        "rule": RuleConfig,
        "resources": ResourcesConfig,
        "autoscaling": AutoscalingConfig,
        "server": ServerConfig,
    },
)
