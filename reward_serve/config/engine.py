"""The sections ``engine`` and ``remote`` of a deployments file: what answers a reward model."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from reward_serve.config.base import Count, Seconds, Section
from reward_serve.config.engine_kwargs import check_engine_kwargs

BUNDLED_MODEL = "bundled"
SHIPPED_ADAPTER = "shipped"
NO_ADAPTER = "none"


class EngineConfig(Section):
    """A vLLM engine. What is left out (``None``) takes a default that fits the device."""

    model: str = Field(BUNDLED_MODEL, min_length=1, description="bundled, a path, or a hub id")
    adapter: str = Field(
        SHIPPED_ADAPTER,
        min_length=1,
        description="merged into the bundled model: shipped, none, or the folder of a LoRA",
    )
    revision: str | None = None
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: a GPU when the deployment is given one, else the CPU"
    )
    tensor_parallel_size: Count = 1
    max_model_len: Annotated[int, Field(ge=64)] = 2048
    max_num_seqs: Count = 64
    max_num_batched_tokens: Count | None = Field(None, description="CPU: 512; GPU: 16,384")
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="default 0.9 of the share of the GPU that the replica asks for"
    )
    cpu_kv_cache_gib: Annotated[float, Field(gt=0)] = Field(
        1.0, description="touched whole at start-up, 3 s a GiB; 23k tokens of the bundled judge"
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="auto: float32 on CPU, the checkpoint's on GPU"
    )
    quantization: str | None = None
    seed: int = 0
    enable_prefix_caching: bool = True
    block_size: Count | None = Field(None, description="CPU: 32; GPU: vLLM's own")
    trust_remote_code: bool = False
    stall_timeout_s: Seconds = Field(
        60.0, description="an engine with work and no progress for so long is hung"
    )
    engine_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="passed on to vLLM's AsyncEngineArgs"
    )

    @model_validator(mode="after")
    def _only_the_bundled_model_takes_an_adapter(self) -> Self:
        if self.model != BUNDLED_MODEL and self.adapter not in (SHIPPED_ADAPTER, NO_ADAPTER):
            raise ValueError(
                f"adapter: {self.adapter!r} is merged into model: bundled only; merge it into "
                f"{self.model!r} beforehand and serve the merged folder"
            )
        return self

    @model_validator(mode="after")
    def _engine_kwargs_are_known(self) -> Self:
        check_engine_kwargs(self.engine_kwargs, own=set(type(self).model_fields))
        return self


class RemoteConfig(Section):
    """An OpenAI-compatible endpoint. Its key is read in the replica, and never stands here."""

    model: str = Field(min_length=1, description="as the endpoint names it, such as gpt-4o-mini")
    base_url: str | None = Field(
        None, min_length=1, description="such as http://127.0.0.1:8001/v1; default OpenAI's"
    )
    api_key_env: str | None = Field("OPENAI_API_KEY", min_length=1, description="null: no key")
    api_key_file: str | None = Field(
        None,
        min_length=1,
        description="before api_key_env: a file of the key alone, or a .env file that sets the "
        "variable which api_key_env names",
    )
    requests_per_minute: Count | None = Field(None, description="of each replica")
    tokens_per_minute: Count | None = Field(
        None, description="of each replica; prompts are taken at three characters a token"
    )
    max_retries: Annotated[int, Field(ge=0)] = Field(
        5, description="of one request, after the endpoint's Retry-After or with backoff"
    )
    timeout_s: Seconds = 60.0
    top_logprobs: Annotated[int, Field(ge=1, le=20)] = Field(
        20, description="in label mode: among so many of the likeliest tokens labels are looked for"
    )
    max_model_len: Annotated[int, Field(ge=1024)] = Field(
        32_768,
        description="of a prompt; a token is three characters of a field, or one of the template",
    )
    extra_body: dict[str, Any] = Field(
        default_factory=dict, description="passed on in every request, as vLLM's own fields are"
    )


def gpus_of_replica(engine: EngineConfig, asked: float | None) -> float:
    """The GPUs that a replica takes, whole or a share.

    Args:
        engine: of the replica.
        asked: ``resources.num_gpus``, where the file says it.

    Raises:
        ValueError: the two contradict each other.
    """
    tp = engine.tensor_parallel_size
    if engine.device == "cpu":
        if asked:
            raise ValueError(
                f"resources.num_gpus: {asked:g} with engine.device: cpu; drop one of the two"
            )
        if tp > 1:
            raise ValueError(
                f"engine.tensor_parallel_size: {tp} with engine.device: cpu; "
                "tensor parallelism here takes GPUs, so set device: cuda or the size to 1"
            )
        return 0.0
    if asked is None:
        return float(tp) if engine.device == "cuda" or tp > 1 else 0.0
    if engine.device == "cuda" and asked == 0:
        raise ValueError("resources.num_gpus: 0 with engine.device: cuda; leave num_gpus out")
    if asked != tp and not (tp == 1 and asked < 1):
        raise ValueError(
            f"resources.num_gpus: {asked:g} does not fit engine.tensor_parallel_size: {tp}; "
            f"leave it out or set {tp}"
        )
    return asked


def ends_thinking(engine: EngineConfig) -> bool:
    """Whether the engine knows how its model thinks, and so can end it after a budget."""
    return not {"reasoning_parser", "reasoning_config"}.isdisjoint(engine.engine_kwargs)
