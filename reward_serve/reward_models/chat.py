"""Chat completions by a judge's model, for clients with their own prompts.

There are no templates, fences, labels or scores: the answer is the model's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import randrange
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reward_serve.engines.base import LanguageModel, TextOutput
from reward_serve.judging.conversation import render_chat
from reward_serve.judging.rendering import CHARACTERS_A_TOKEN
from reward_serve.messages import Message, Text
from reward_serve.off_loop import LONG_PROMPT, off_loop
from reward_serve.reward_models.base import InvalidRequestError, gathered
from reward_serve.schema import MAX_MESSAGES, Count, Options, Seed, Timeout

if TYPE_CHECKING:
    from reward_serve.reward_models.judge import Generation

CHAT_TIMEOUT_S = 600.0
"""The default deadline, as in OpenAI's clients."""

_UNSUPPORTED: dict[str, list[Any]] = {
    "stream": [False],
    "stream_options": [],
    "logprobs": [False],
    "top_logprobs": [0],
    "stop": [[]],
    "frequency_penalty": [0],
    "presence_penalty": [0],
    "repetition_penalty": [1],
    "top_k": [0, -1],
    "min_p": [0],
    "logit_bias": [{}],
    "response_format": [{"type": "text"}],
    "tools": [[]],
}
"""Unsupported field to its neutral values, which some clients send and which are ignored."""


class TemplateSettings(BaseModel):
    """The supported fields of ``chat_template_kwargs``."""

    model_config = ConfigDict(extra="forbid")

    enable_thinking: bool | None = Field(None, strict=True)


def _document_unsupported(schema: dict[str, Any]) -> None:
    schema["properties"] |= {
        name: {"enum": [None, *neutral], "description": "Not supported; ignored at these values."}
        for name, neutral in _UNSUPPORTED.items()
    }


class ChatMessage(Message):
    """A turn without tools and images."""

    role: Literal["system", "user", "assistant"]
    content: Text = ""
    tool_calls: None = None


class ChatRequest(BaseModel):
    """The supported part of OpenAI's chat completion request; other fields are rejected."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_document_unsupported)

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: str | None = None
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False, strict=True)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False, strict=True)
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    n: int | None = Field(None, strict=True, ge=1, le=8)
    chat_template_kwargs: TemplateSettings = Field(default_factory=TemplateSettings)
    timeout_s: Timeout = CHAT_TIMEOUT_S
    seed: Seed | None = None
    user: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _what_is_not_done(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            raise ValueError("must be an object")
        for field, neutral in _UNSUPPORTED.items():
            if body.get(field) not in (None, *neutral):
                raise ValueError(f"{field}: is not supported; remove it")
        return {field: value for field, value in body.items() if field not in _UNSUPPORTED}

    @property
    def options(self) -> Options:
        """The sampling settings, as options of a score request."""
        return Options(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            enable_thinking=self.chat_template_kwargs.enable_thinking,
        )

    @property
    def size(self) -> int:
        """The bytes of UTF-8 of the messages."""
        return sum(message.size for message in self.messages)


async def complete(
    engine: LanguageModel,
    generation_of: Callable[[Options], Generation],
    most: int,
    request: ChatRequest,
) -> Sequence[TextOutput]:
    """Generate ``n`` completions.

    Args:
        engine: the judge's engine, with its cache.
        generation_of: merges a request's options with the judge's settings.
        most: maximum tokens of a completion.
        request: the messages and how to answer them.

    Raises:
        InvalidRequestError: the request is invalid.
        EngineError: the engine failed.
    """
    options = request.options
    if options.max_tokens is not None:  # a shorter answer has finish_reason: length
        options.max_tokens = min(options.max_tokens, most)
    generation, context = generation_of(options), engine.max_model_len
    too_long = "messages: {} exceed this model's context of {} tokens; shorten them"
    if request.size > CHARACTERS_A_TOKEN * context:
        raise InvalidRequestError(too_long.format(f"{request.size} bytes", context))
    turns = [{"role": turn.role, "content": turn.text} for turn in request.messages]
    try:
        prompt, length = await off_loop(
            request.size > LONG_PROMPT,
            render_chat,
            engine.tokenizer,
            turns,
            generation.enable_thinking,
        )
    except ValueError as error:
        raise InvalidRequestError(str(error)) from None
    if length >= context:
        raise InvalidRequestError(too_long.format(f"{length} tokens", context))
    first = randrange(2**31) if request.seed is None else request.seed
    max_tokens = min(generation.sampling.max_tokens, context - length)
    sampling = replace(generation.sampling, max_tokens=max_tokens)
    return await gathered(
        engine.generate(prompt, replace(sampling, sample=first + number))
        for number in range(request.n or 1)
    )
