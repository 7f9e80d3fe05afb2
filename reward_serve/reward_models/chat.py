"""Chat completions by a judge's model, and text completions by a teacher's, as OpenAI has them.

They are for clients with their own prompts. There are no templates, fences, labels or scores: the
engine answers as that API does, and what is listed here reaches it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, JsonValue, model_validator

from reward_serve.logprobs import MAX_TOP_K, TokenId, places_of
from reward_serve.messages import Message, Text, as_json, utf8_bytes
from reward_serve.schema import MAX_MESSAGES, MAX_TOOLS, Count, Seed, Timeout

CHAT_TIMEOUT_S = 600.0  # the default deadline, as in OpenAI's clients
MAX_ANSWERS = 8
_MAX_SCHEMA_BYTES = 2**14  # vLLM reads a schema on the event loop, in up to 0.3 s without patterns
_EMPTY: tuple[Any, ...] = (None, [], {})

# A request for top-k logprobs would overwrite the label logprobs of others in the same step.
_UNSUPPORTED: Mapping[str, Any] = {"stream": False, "use_beam_search": False}
"""Refused field to the value that changes nothing, which some clients send and which is ignored."""
_MAX_VALUES = 2**18
"""Of ``prompt_logprobs``: vLLM makes three objects of each, on the event loop."""

Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Penalty = Annotated[Number, Field(ge=-2, le=2)]
Stop = Annotated[Text, Field(min_length=1)]

TemplateArgument = Literal[
    "enable_thinking", "thinking", "thinking_budget", "thinking_mode", "clear_thinking",
    "preserve_thinking", "truncate_history_thinking", "reasoning_effort", "low_effort",
]  # fmt: skip
"""Of the chat templates of current models; others could replace the template or its tools."""


class ChatMessage(Message):
    """A turn without images; a generative reward model may have roles of its own."""

    role: Annotated[Text, Field(pattern=r"^[\w-]{1,64}$")]  # type: ignore[assignment]
    content: Text = ""
    reasoning: Text | None = None
    reasoning_content: Text | None = Field(None, description="An older name of reasoning.")


class _OpenAIRequest(BaseModel, extra="forbid"):
    """What chat and text completions share."""

    unsupported: ClassVar[Mapping[str, Any]] = _UNSUPPORTED

    model: str | None = None
    n: int | None = Field(None, strict=True, ge=1, le=MAX_ANSWERS)
    timeout_s: Timeout = CHAT_TIMEOUT_S
    user: str | None = Field(None, description="Ignored.")
    metadata: dict[str, JsonValue] | None = Field(None, description="Ignored.")
    seed: Seed | None = None
    temperature: Number | None = Field(None, ge=0, le=2, description="Default: the deployment's.")
    top_p: Number | None = Field(None, gt=0, le=1, description="Default: the deployment's.")
    top_k: int | None = Field(None, ge=-1, lt=2**31)
    min_p: Number | None = Field(None, ge=0, le=1)
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Number | None = Field(None, gt=0, le=2)
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _what_is_not_done(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            raise ValueError("must be an object")
        for field, neutral in cls.unsupported.items():
            if body.get(field) not in (None, neutral):
                raise ValueError(f"{field}: is not supported; remove it")
        return {k: v for k, v in body.items() if k not in cls.unsupported and v not in _EMPTY}

    @property
    def passed_on(self) -> dict[str, Any]:
        """The fields that the engine gets."""
        ours = {"model", "n", "timeout_s", "user", "metadata"}
        return self.model_dump(mode="json", exclude=ours, exclude_none=True)

    def numbered(self, number: int) -> Self:
        """The request for one of several answers, which differ also if there is a seed."""
        seed = None if self.seed is None else self.seed + number
        return self.model_copy(update={"seed": seed})


class ChatRequest(_OpenAIRequest):
    """The supported part of OpenAI's chat completion request; other fields are rejected."""

    # A request for top-k logprobs would overwrite the label logprobs of others in the same step.
    unsupported = {**_UNSUPPORTED, "logprobs": False, "top_logprobs": 0}

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_tokens: Count | None = Field(None, description="At most the deployment's.")
    max_completion_tokens: Count | None = Field(None, description="Another name of max_tokens.")
    response_format: dict[str, JsonValue] | None = None
    tools: list[dict[str, JsonValue]] | None = Field(
        None, max_length=MAX_TOOLS, description="With vLLM, engine.tool_call_parser must be set."
    )
    tool_choice: str | dict[str, JsonValue] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    include_reasoning: bool | None = None
    thinking_token_budget: Count | None = None
    chat_template_kwargs: dict[TemplateArgument, bool | int | Number | Text | None] | None = None

    @model_validator(mode="after")
    def _is_bounded(self) -> ChatRequest:
        if any(tool.get("type", "function") != "function" for tool in self.tools or ()):
            raise ValueError("tools: must have the type function; an endpoint could run others")
        called = None if self.tool_choice in (None, "auto", "none") else self.tools
        schema = as_json([self.response_format, called])
        if len(schema) > _MAX_SCHEMA_BYTES or re.search('"pattern(Properties)?" ?:', schema):
            raise ValueError(
                "response_format, tools: a schema that the engine enforces must have at most "
                f"{_MAX_SCHEMA_BYTES} characters, and no pattern"
            )
        assert self.size  # raises if a number has no JSON
        return self

    places: ClassVar[int] = 1  # in a replica

    @cached_property
    def size(self) -> int:
        """The bytes of UTF-8 of what the engine gets, as JSON."""
        return utf8_bytes(as_json(self.passed_on))

    @property
    def passed_on(self) -> dict[str, Any]:
        """The fields that the engine gets, besides the number of answers and tokens."""
        fields = super().passed_on
        return {k: v for k, v in fields.items() if k not in ("max_tokens", "max_completion_tokens")}


class CompletionRequest(_OpenAIRequest):
    """The supported part of OpenAI's text completion request, and vLLM's log-probabilities."""

    unsupported = {**_UNSUPPORTED, "suffix": "", "best_of": 1}

    prompt: list[TokenId] | Text = Field(
        min_length=1, description="Token ids or text; over HTTP also a list of these."
    )
    max_tokens: int | None = Field(None, strict=True, ge=0, lt=2**31)
    prompt_logprobs: int | None = Field(None, strict=True, ge=0, le=MAX_TOP_K)
    logprobs: int | None = Field(None, strict=True, ge=0, le=MAX_TOP_K)
    echo: bool = False
    add_special_tokens: bool = True
    skip_special_tokens: bool = True
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    ignore_eos: bool = False
    min_tokens: int | None = Field(None, strict=True, ge=0, lt=2**31)
    stop_token_ids: list[TokenId] | None = Field(None, max_length=64)

    @model_validator(mode="after")
    def _is_as_vllm_does_it(self) -> Self:
        of_prompt = self._of_prompt
        if of_prompt is not None and self.temperature not in (None, 0.0, 1.0):
            raise ValueError(
                f"temperature: {self.temperature:g} does not reach prompt_logprobs in vLLM, "
                "whatever its logprobs mode; send 1, and scale top log-probabilities yourself"
            )
        if of_prompt is not None and (values := self.tokens * (of_prompt + 1)) > _MAX_VALUES:
            raise ValueError(
                f"prompt_logprobs: {of_prompt} for {self.tokens} tokens are {values} values; the "
                f"limit is {_MAX_VALUES}, so lower it, or ask /v1/logprobs"
            )
        return self

    @property
    def _of_prompt(self) -> int | None:
        of_echo = self.logprobs if self.echo else None
        return of_echo if self.prompt_logprobs is None else self.prompt_logprobs

    @property
    def tokens(self) -> int:
        """Those of the prompt; of a text, at most."""
        return utf8_bytes(self.prompt) if isinstance(self.prompt, str) else len(self.prompt)

    @property
    def size(self) -> int:
        """The bytes of the prompt's UTF-8 or ids."""
        return self.tokens if isinstance(self.prompt, str) else 4 * self.tokens

    @property
    def places(self) -> int:
        """The places in a replica that it takes."""
        scored = 0 if self._of_prompt is None else self.tokens
        return places_of(self.tokens + (self.max_tokens or 0), scored, self._of_prompt or 0)

    @property
    def samples_logprobs(self) -> bool:
        """Whether it asks for those of sampled tokens."""
        return self.logprobs is not None and not (self.echo and self.max_tokens == 0)


def merged(answers: Sequence[dict[str, Any]], prompts: int = 1) -> dict[str, Any]:
    """Completions of one prompt as one, which is counted once; or of as many prompts as answers."""
    whole = answers[0]
    choices = (choice for answer in answers for choice in answer["choices"])
    whole["choices"] = [{**choice, "index": index} for index, choice in enumerate(choices)]
    for other in (answer.get("usage") for answer in answers[1:]):
        if other and whole.get("usage"):
            usage = whole["usage"]
            usage["completion_tokens"] += other["completion_tokens"]
            usage["prompt_tokens"] += other["prompt_tokens"] if prompts > 1 else 0
            usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    return whole
