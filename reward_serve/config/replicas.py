"""The sections shared by kinds: ``resources``, ``autoscaling``, ``cache`` and ``verdict_log``."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from reward_serve.config.base import Count, Seconds, Section


class CacheConfig(Section):
    """A replica's cache of the engine's outputs, keyed by the prompt's tokens.

    Concurrent requests with the same prompt share one call to the engine.
    """

    enabled: bool = True
    max_entries: Count = 65_536
    max_mib: Annotated[float, Field(gt=0)] = 64.0


class ResourcesConfig(Section):
    """The resources that one replica requests from Ray."""

    num_cpus: Annotated[float, Field(gt=0)] | None = None
    num_gpus: Annotated[float, Field(ge=0)] | None = None
    accelerator_type: str | None = None
    runtime_env: dict[str, Any] | None = None


class AutoscalingConfig(Section):
    """Scale replicas with the number of items (not calls) in flight."""

    min_replicas: Annotated[int, Field(ge=0)] = 1
    max_replicas: Count = 1
    initial_replicas: Annotated[int, Field(ge=0)] | None = None
    target_items: Annotated[float, Field(gt=0)] | None = Field(
        None, description="target items in flight per replica; default: max_concurrent_items"
    )
    look_back_period_s: Seconds = 15.0
    upscale_delay_s: Annotated[float, Field(ge=0)] = 10.0
    downscale_delay_s: Annotated[float, Field(ge=0)] = 300.0

    @model_validator(mode="after")
    def _bounds_fit(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas: {self.max_replicas} is below min_replicas "
                f"{self.min_replicas}; raise it"
            )
        if self.initial_replicas is not None and not (
            self.min_replicas <= self.initial_replicas <= self.max_replicas
        ):
            raise ValueError(
                f"initial_replicas: {self.initial_replicas} is outside "
                f"{self.min_replicas}..{self.max_replicas}; choose a number in this range"
            )
        return self


class VerdictLogConfig(Section):
    """A sample of the verdicts, written as JSON lines by each replica on its node."""

    folder: str | None = Field(None, min_length=1, description="folder of the log; null: no log")
    rate: Annotated[float, Field(ge=0, le=1)] = Field(0.01, description="fraction of requests")
    redact: bool = Field(False, description="leave out the response and the reference")
    tail_characters: Count = Field(400, description="characters to log from a response's end")
    max_mib: Annotated[float, Field(gt=0)] = Field(64.0, description="disk limit per replica")
