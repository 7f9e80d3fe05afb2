"""Chat completions by a judge's model, for clients with their own prompts.

There are no templates, fences, labels or scores: the answer is the model's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import randrange
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from reward_serve.config.judge import JudgeConfig
from reward_serve.engines.base import LanguageModel, TextOutput
from reward_serve.judging.conversation import render_chat
from reward_serve.judging.rendering import CHARACTERS_A_TOKEN
from reward_serve.off_loop import off_loop
from reward_serve.reward_models.base import InvalidRequestError, gathered
from reward_serve.reward_models.comparison import LONG_PROMPT, generation_of
from reward_serve.schema import MAX_MESSAGES, Count, Message, Options, Seed, Timeout, utf8_bytes

CHAT_TIMEOUT_S = 600.0
"""The default deadline, as in OpenAI's clients."""


_NOT = "is not supported"
_NO_TOP_K = "is not supported, since top-k logprobs would overwrite the judge's label logprobs"
_UNSUPPORTED: dict[str, tuple[tuple[Any, ...], str]] = {
    "stream": ((False,), "streaming is not supported"),
    "stream_options": ((), "streaming is not supported"),
    "logprobs": ((False,), _NO_TOP_K),
    "top_logprobs": ((0,), _NO_TOP_K),
    "stop": (([],), _NOT),
    "frequency_penalty": ((0,), _NOT),
    "presence_penalty": ((0,), _NOT),
    "repetition_penalty": ((1,), _NOT),
    "top_k": ((0, -1), _NOT),
    "min_p": ((0,), _NOT),
    "logit_bias": (({},), _NOT),
    "response_format": (({"type": "text"},), _NOT),
    "tools": (([],), _NOT),
}
"""Unsupported field to its neutral values, which are accepted, and the reason to reject others."""


def _same(said: Any, neutral: Any) -> bool:
    """Whether the values are equal; unlike ``==``, False is not 0."""
    return isinstance(said, bool) is isinstance(neutral, bool) and bool(said == neutral)


class TemplateSettings(BaseModel):
    """The supported fields of ``chat_template_kwargs``."""

    model_config = ConfigDict(extra="forbid")

    enable_thinking: bool | None = Field(None, strict=True)


def _document_unsupported(schema: dict[str, Any]) -> None:
    schema["properties"] |= {
        name: {"enum": [None, *neutral], "description": f"Ignored at these values; {why}."}
        for name, (neutral, why) in _UNSUPPORTED.items()
    }


class ChatRequest(BaseModel):
    """The supported part of OpenAI's chat completion request; other fields are rejected.

    Unsupported fields with a neutral value, which some clients send, are ignored.
    """

    model_config = ConfigDict(extra="forbid", json_schema_extra=_document_unsupported)

    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: str | None = None
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False, strict=True)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False, strict=True)
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    n: Count | None = None
    chat_template_kwargs: TemplateSettings = Field(default_factory=TemplateSettings)
    timeout_s: Timeout = CHAT_TIMEOUT_S
    seed: Seed | None = None
    user: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _what_is_not_done(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            raise ValueError("must be an object")
        for field, (neutral, why) in _UNSUPPORTED.items():
            said = body.get(field)
            if said is not None and not any(_same(said, each) for each in neutral):
                raise ValueError(f"{field}: {why}; remove it")
        return {field: value for field, value in body.items() if field not in _UNSUPPORTED}

    @property
    def options(self) -> Options:
        """The sampling settings, as options of a score request."""
        return Options(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            enable_thinking=self.chat_template_kwargs.enable_thinking,
            samples=self.n if self.n != 1 else None,
        )

    @property
    def size(self) -> int:
        """The bytes of UTF-8 of the messages."""
        return sum(utf8_bytes(message.content) for message in self.messages)


class Chat:
    """Chat completions by one judge's model.

    Args:
        engine: the judge's engine, with its cache.
        config: the judge's settings and limits.
        ends_thinking: whether the engine can limit thinking.
    """

    def __init__(self, engine: LanguageModel, config: JudgeConfig, ends_thinking: bool) -> None:
        self._engine = engine
        self._config = config.model_copy(update={"samples": 1})  # the client sets n
        self._ends_thinking = ends_thinking

    async def complete(self, request: ChatRequest) -> Sequence[TextOutput]:
        """Generate ``n`` completions.

        Raises:
            InvalidRequestError: the request is invalid.
            EngineError: the engine failed.
        """
        options = request.options
        if options.max_tokens is not None:  # a shorter answer has finish_reason: length
            options.max_tokens = min(options.max_tokens, self._config.max_tokens)
        generation = generation_of(options, self._config, "generate", self._ends_thinking)
        most = CHARACTERS_A_TOKEN * self._engine.max_model_len
        if request.size > most:
            raise InvalidRequestError(
                f"messages: {request.size} bytes exceed this model's context of "
                f"{self._engine.max_model_len} tokens; shorten them"
            )
        turns = [message.model_dump() for message in request.messages]
        try:
            prompt, length = await off_loop(
                request.size > LONG_PROMPT,
                render_chat,
                self._engine.tokenizer,
                turns,
                generation.enable_thinking,
            )
        except ValueError as error:
            raise InvalidRequestError(str(error)) from None
        room = self._engine.max_model_len - length
        if room < 1:
            raise InvalidRequestError(
                f"messages: {length} tokens exceed this model's context of "
                f"{self._engine.max_model_len} tokens; shorten them"
            )
        first = randrange(2**31) if request.seed is None else request.seed
        sampling = replace(
            generation.sampling, max_tokens=min(generation.sampling.max_tokens, room)
        )
        return await gathered(
            self._engine.generate(prompt, replace(sampling, sample=first + number))
            for number in range(request.n or 1)
        )
