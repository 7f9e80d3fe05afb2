"""The top level of ``args``: the reward models and HTTP server of an application or a gateway.

>>> config = AppConfig.parse({"models": [{"name": "judge", "kind": "judge"}]})
>>> config.models[0].resources.num_cpus
2.0
"""

from collections import Counter
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from reward_serve.config.base import ConfigError, Count, Section, faults_of
from reward_serve.config.models import LENGTH, ModelConfig


class ByRowConfig(Section):
    """The model of a request that names none, by a field of its metadata."""

    field: str = Field("data_source", min_length=1, description="the field of metadata")
    models: dict[str, str] = Field(
        min_length=1,
        description="the field's value, or its beginning with a * at the end, to a model's name",
    )
    default: str | None = Field(
        None, description="the model of rows that match nothing; null: they are invalid"
    )


class ServerConfig(Section):
    """The HTTP server."""

    num_replicas: Count = 1
    max_ongoing_requests: Count = Field(
        1024, description="requests in one ingress replica at a time; with API keys, of each key"
    )
    max_batch_items: Count = 1024
    max_body_bytes: Count = 16 * 2**20
    api_keys_file: str | None = Field(
        None,
        min_length=1,
        description="file of lines 'name: key', read once, where Serve builds the application; "
        "without keys from here or api_keys_env, anyone who reaches the port can send requests",
    )
    api_keys_env: str | None = Field(
        None,
        min_length=1,
        description="environment variable with 'name=key,name2=key2', read like api_keys_file",
    )
    max_concurrent_items_per_key: Count | None = Field(
        None, description="maximum items in flight for one key in one ingress replica"
    )
    aliases: dict[str, str] = Field(
        default_factory=dict,
        description="alternative names of reward models; the hub id of a model's checkpoint is an "
        "alias by default, unless several models serve it",
    )
    by_row: ByRowConfig | None = Field(
        None, description="requests choose a model by their data set; default: the first model"
    )
    compatible_with: set[Literal["openai", "openrlhf", "sglang", "slime"]] = Field(
        default_factory=set,
        description="protocols to serve: /v1/chat/completions, /v1/completions and "
        "/inference/v1/generate; /get_reward; /generate; /remote_rm",
    )
    absent_reward: float | None = Field(
        None,
        description="the reward that /get_reward and /remote_rm return for an item without a "
        "score; null: the request fails, and the trainer retries",
    )
    explain: bool = Field(
        True, description="serve /v1/explain, over HTTP and by handle, which explains results"
    )

    @model_validator(mode="after")
    def _a_limit_per_key_has_keys(self) -> Self:
        if self.max_concurrent_items_per_key and not (self.api_keys_file or self.api_keys_env):
            raise ValueError(
                "max_concurrent_items_per_key: needs API keys; set api_keys_file or api_keys_env"
            )
        return self


class _Args(Section):
    """The fields that an application and a gateway share."""

    models: list[Any]
    server: ServerConfig = Field(default_factory=ServerConfig)

    @classmethod
    def parse(cls, args: dict[str, Any]) -> Self:
        """Read ``args`` of a deployments file.

        Raises:
            ConfigError: lists each invalid field with its value and the remedy.
        """
        try:
            return cls.model_validate(args)
        except ValidationError as error:
            raise ConfigError(f"args: {faults_of(error, cls)}") from None

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [model.name for model in self.models]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"models: two models are named {repeated[0]!r}; rename one")
        aliases, by_row = self.server.aliases, self.server.by_row
        if taken := aliases.keys() & names:
            alias = min(taken)
            raise ValueError(f"server.aliases.{alias}: is a model's name; remove the alias")
        named = {f"aliases.{alias}": name for alias, name in aliases.items()}
        if by_row is not None:
            named |= {f"by_row.models.{value}": name for value, name in by_row.models.items()}
            named |= {"by_row.default": by_row.default} if by_row.default is not None else {}
        for field, name in named.items():
            if name not in names:
                raise ValueError(
                    f"server.{field}: no model is named {name!r}; choose from {', '.join(names)}"
                )
        return self


class AppConfig(_Args):
    """``args`` of one Serve application."""

    models: list[ModelConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _checkpoints_are_aliases(self) -> Self:
        """A checkpoint's hub id becomes an alias, unless several models serve it."""
        served = [(model.checkpoint, model.name) for model in self.models]
        counts = Counter(checkpoint for checkpoint, _ in served)
        taken = {None, *(model.name for model in self.models)}
        aliases = {str(c): name for c, name in served if counts[c] == 1 and c not in taken}
        self.server.aliases = aliases | self.server.aliases
        return self

    @model_validator(mode="after")
    def _members_exist(self) -> Self:
        """Members are models, and get a rubric if they read one."""
        models = {model.name: model for model in self.models}
        # By rank: a composite may have a cascade as a member.
        for model in sorted(self.models, key=lambda model: model.rank):
            known = [name for name, other in models.items() if other.rank < model.rank]
            takes_length = model.kind == "composite"
            for member in (member for member in model.members if member.application is None):
                if member.model not in known and not (takes_length and member.model == LENGTH):
                    raise ValueError(
                        f"models: {model.kind} {model.name!r} has the member {member.model!r}, but "
                        f"the application's other models are: {', '.join(known) or 'none'}; add "
                        "the model, or set the member's application"
                    )
                if member.rubric is None:
                    member.rubric = member.model != LENGTH and models[member.model].reads_rubric
        return self


class GatewayModel(Section):
    """A reward model to which a gateway forwards requests."""

    name: str = Field(min_length=1, description="the deployment's name, as in a request's model")
    application: str = Field(min_length=1, description="the Serve application it belongs to")


class GatewayConfig(_Args):
    """``args`` of a gateway: one HTTP server for the models of several applications."""

    models: list[GatewayModel] = Field(min_length=1, description="the first is the default")
