"""The ``remote`` section of a deployments file."""

from typing import Annotated, Any

from pydantic import Field

from reward_serve.config_base import Count, Seconds, Section


class RemoteConfig(Section):
    """An OpenAI-compatible endpoint. Its key is read in the replica, and never stands here."""

    model: str = Field(min_length=1, description="as the endpoint names it, such as gpt-4o-mini")
    base_url: str | None = Field(
        None, min_length=1, description="such as http://127.0.0.1:8001/v1; default OpenAI's"
    )
    api_key_env: str | None = Field("OPENAI_API_KEY", min_length=1, description="null: no key")
    api_key_file: str | None = Field(None, min_length=1, description="before api_key_env")
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
