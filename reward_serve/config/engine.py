"""The sections ``engine`` and ``remote`` of a deployments file."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from reward_serve.config.base import Count, Seconds, Section
from reward_serve.logprobs import MAX_TOP_K

BUNDLED_MODEL = "bundled"
SHIPPED_ADAPTER = "shipped"
NO_ADAPTER = "none"

_TEACHER_BATCHED_TOKENS = 2048

_FROZEN = ["enable_lora", "enable_sleep_mode", "weight_transfer_config", "worker_extension_cls"]
_PARALLEL = ["data_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size"]
_REFUSED = {  # engine_kwargs
    "scheduling_policy": "API keys share the engine by priority; remove it",
    **dict.fromkeys(_FROZEN, "a reward model is frozen while it serves; remove it"),
    **dict.fromkeys(
        _PARALLEL,
        "uses GPUs that the replica does not request; use more replicas or "
        "engine.tensor_parallel_size",
    ),
}


class EngineConfig(Section):
    """A vLLM engine. Fields that are None take a default for the device."""

    model: str = Field(BUNDLED_MODEL, min_length=1, description="bundled, a path or a hub id")
    adapter: str = Field(
        SHIPPED_ADAPTER,
        min_length=1,
        description="LoRA to merge into the bundled model: shipped, none or a folder",
    )
    revision: str | None = None
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="auto: a GPU if resources include one, otherwise the CPU"
    )
    tensor_parallel_size: Count = 1
    max_model_len: Annotated[int, Field(ge=64)] = 2048
    max_num_seqs: Count = 64
    max_num_batched_tokens: Count | None = Field(
        None, description="CPU: 512; GPU: 16,384, or 2,048 of a teacher"
    )
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="default: 0.9 times the replica's share of the GPU"
    )
    cpu_kv_cache_gib: Annotated[float, Field(gt=0)] = Field(
        1.0,
        description="allocated at start-up, 3 s per GiB; 1 GiB holds 23k tokens of the bundled "
        "judge",
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16", "int8"] = Field(
        "auto",
        description="auto: on a GPU the checkpoint's, bfloat16 for float32; on a CPU float32, or "
        "for the bundled judge the fastest that judges as well on the CPU's instruction set. int8: "
        "the bundled model's linear layers in 8 bits, on a CPU",
    )
    quantization: str | None = None
    seed: int = 0
    enable_prefix_caching: bool = True
    block_size: Count | None = Field(None, description="CPU: 32; GPU: vLLM's default")
    trust_remote_code: bool = False
    stall_timeout_s: Seconds = Field(
        60.0, description="an engine with requests and no output for this long counts as hung"
    )
    tool_call_parser: str | None = Field(
        None, description="vLLM's parser of tool calls in chat completions, such as hermes"
    )
    engine_kwargs: dict[str, Any] = Field(
        default_factory=dict, description="passed to vLLM's AsyncEngineArgs"
    )

    @property
    def is_bundled_judge(self) -> bool:
        """Whether it runs the bundled judge, and not its base or another adapter."""
        return (self.model, self.adapter) == (BUNDLED_MODEL, SHIPPED_ADAPTER)

    @property
    def ends_thinking(self) -> bool:
        """Whether it can limit thinking, for which it needs a reasoning parser."""
        return not {"reasoning_parser", "reasoning_config"}.isdisjoint(self.engine_kwargs)

    def serve_teacher(self) -> None:
        """Set what log-probabilities of prompts need where the file does not."""
        self.engine_kwargs.setdefault("max_logprobs", MAX_TOP_K)
        if self.device == "cpu" and self.dtype == "auto":
            self.dtype = "float32"  # in int8 a token's differs by up to 0.9 with other chunks
        if self.device == "cuda" and self.max_num_batched_tokens is None:
            # vLLM makes the logits of all tokens of a step, for which it sets no memory aside.
            self.max_num_batched_tokens = _TEACHER_BATCHED_TOKENS

    @model_validator(mode="after")
    def _the_settings_are_the_models(self) -> Self:
        if self.model != BUNDLED_MODEL and self.adapter not in (SHIPPED_ADAPTER, NO_ADAPTER):
            raise ValueError(
                f"adapter: {self.adapter!r} can only be merged into model: bundled; merge it into "
                f"{self.model!r} beforehand and serve the merged folder"
            )
        if self.model != BUNDLED_MODEL and self.dtype == "int8":
            raise ValueError(
                f"dtype: int8 is for model: bundled, not {self.model!r}; write dtype: auto, which "
                "serves a quantized checkpoint as it is"
            )
        for name in self.engine_kwargs:
            if name in type(self).model_fields:
                raise ValueError(f"engine_kwargs.{name}: has its own field; set engine.{name}")
            if name in _REFUSED:
                raise ValueError(f"engine_kwargs.{name}: {_REFUSED[name]}")
        return self


class RemoteConfig(Section):
    """An OpenAI-compatible endpoint. Its API key is read in the replica, never from this file."""

    model: str = Field(min_length=1, description="the endpoint's model name, such as gpt-5-mini")
    base_url: str | None = Field(
        None, pattern="^https?://.", description="such as http://HOST:8001/v1; default: OpenAI's"
    )
    api_key_env: str | None = Field(
        "OPENAI_API_KEY", min_length=1, description="environment variable; null: no key"
    )
    api_key_file: str | None = Field(
        None,
        min_length=1,
        description="takes precedence over api_key_env: a file with only the key, or a .env file "
        "that sets the variable named by api_key_env",
    )
    requests_per_minute: Count | None = Field(None, description="shared by all replicas")
    tokens_per_minute: Count | None = Field(
        None,
        description="likewise; a prompt counts one token per three characters, a reply the limit "
        "sent, half as much again as the longest of late, up to max_tokens",
    )
    max_retries: Annotated[int, Field(ge=0)] = Field(
        5, description="retries per request, after the endpoint's Retry-After or with backoff"
    )
    timeout_s: Seconds = Field(
        30.0,
        description="of one call, which is then made again; half of the default deadline, so raise "
        "both for a model that writes for longer",
    )
    top_logprobs: Annotated[int, Field(ge=1, le=20)] = Field(
        20, description="label mode: number of likeliest tokens to search for labels"
    )
    max_model_len: Annotated[int, Field(ge=1024)] = Field(
        32_768,
        description="maximum prompt tokens, counted as one per three characters of a field and one "
        "per character of the template",
    )
    image_hosts: list[str] = Field(
        [], description="hosts whose image URLs callers may send to the endpoint, beside data: URLs"
    )
    extra_body: dict[str, Any] = Field(
        default_factory=dict,
        description="extra fields of every request, such as vLLM's own; reasoning_effort is low "
        "for OpenAI's reasoning models unless it is here",
    )
