"""Chat completions by a judge's model, and text completions by a teacher's.

They are for clients with their own prompts. There are no templates, fences, labels or scores: the
engine answers as OpenAI's API does, and what is listed here reaches it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, JsonValue, model_validator

from reward_serve.logprobs import MAX_TOP_K, TokenId, places_of
from reward_serve.messages import Message, Text, as_json, utf8_bytes
from reward_serve.schema import MAX_MESSAGES, MAX_TOOLS, Count, Seed, Timeout

CHAT_TIMEOUT_S = 600.0  # the default deadline, as in OpenAI's clients
MAX_ANSWERS = 8
_MAX_SCHEMA_BYTES = 2**14  # vLLM reads a schema on the event loop, in up to 0.3 s without patterns
_EMPTY: tuple[Any, ...] = (None, [], {})

# A request for top-k logprobs would overwrite the label logprobs of others in the same step.
_UNSUPPORTED = {"stream": False, "logprobs": False, "top_logprobs": 0, "use_beam_search": False}
"""Refused field to the value that changes nothing, which some clients send and which is ignored."""

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


class ChatRequest(BaseModel, extra="forbid"):
    """The supported part of OpenAI's chat completion request; other fields are rejected."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    model: str | None = None
    n: int | None = Field(None, strict=True, ge=1, le=MAX_ANSWERS)
    max_tokens: Count | None = Field(None, description="At most the deployment's.")
    max_completion_tokens: Count | None = Field(None, description="Another name of max_tokens.")
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

    @model_validator(mode="before")
    @classmethod
    def _what_is_not_done(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            raise ValueError("must be an object")
        for field, neutral in _UNSUPPORTED.items():
            if body.get(field) not in (None, neutral):
                raise ValueError(f"{field}: is not supported; remove it")
        return {k: v for k, v in body.items() if k not in _UNSUPPORTED and v not in _EMPTY}

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
        ours = {"model", "n", "max_tokens", "max_completion_tokens", "timeout_s", "user"}
        return self.model_dump(mode="json", exclude=ours | {"metadata"}, exclude_none=True)

    def numbered(self, number: int) -> ChatRequest:
        """The request for one of several answers, which differ also if there is a seed."""
        seed = None if self.seed is None else self.seed + number
        return self.model_copy(update={"seed": seed})


_OF_VLLM = {
    *("top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"),
    *("stop", "stop_token_ids", "ignore_eos", "min_tokens", "add_special_tokens"),
    *("skip_special_tokens", "return_token_ids", "return_tokens_as_token_ids"),
}
_IGNORED = {"user", "metadata"}
_NEUTRAL = {"stream": False, "use_beam_search": False, "suffix": "", "best_of": 1}
_MAX_VALUES = 2**18  # of prompt_logprobs: vLLM makes objects of each, on the event loop


class CompletionRequest(BaseModel, extra="allow"):
    """OpenAI's text completion request for one prompt, with vLLM's log-probabilities.

    vLLM checks the fields of ``_OF_VLLM``; others than these are rejected.
    """

    prompt: list[TokenId] | Text = Field(
        min_length=1, description="Token ids or text; over HTTP also a list of these."
    )
    model: str | None = None
    n: int | None = Field(None, strict=True, ge=1, le=MAX_ANSWERS)
    timeout_s: Timeout = CHAT_TIMEOUT_S
    seed: Seed | None = None
    temperature: Number | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, strict=True, ge=0, lt=2**31)
    prompt_logprobs: int | None = Field(None, strict=True, ge=0, le=MAX_TOP_K)
    logprobs: int | None = Field(None, strict=True, ge=0, le=MAX_TOP_K)
    echo: bool = False

    @model_validator(mode="after")
    def _is_as_vllm_does_it(self) -> CompletionRequest:
        for name, value in (self.model_extra or {}).items():
            known = name in _OF_VLLM or name in _IGNORED
            if not known and (name not in _NEUTRAL or value not in (None, _NEUTRAL[name])):
                raise ValueError(f"{name}: is not supported; remove it")
        if self.values and self.temperature not in (None, 0.0, 1.0):
            raise ValueError(
                f"temperature: {self.temperature:g} does not reach prompt_logprobs in vLLM, "
                "whatever its logprobs mode; send 1, and scale top log-probabilities yourself"
            )
        if self.values > _MAX_VALUES:
            raise ValueError(
                f"prompt_logprobs: {self.values} values for {self.tokens} tokens; the limit is "
                f"{_MAX_VALUES}, so lower it, or ask /v1/logprobs"
            )
        return self

    @property
    def tokens(self) -> int:
        """Those of the prompt; of a text, at most."""
        return len(self.prompt.encode() if isinstance(self.prompt, str) else self.prompt)

    @property
    def values(self) -> int:
        """The log-probabilities of the prompt."""
        top_k = (
            self.logprobs if self.echo and self.prompt_logprobs is None else self.prompt_logprobs
        )
        return 0 if top_k is None else self.tokens * (top_k + 1)

    @property
    def places(self) -> int:
        """The places in a replica that it takes; vLLM's objects are larger than arrays."""
        return places_of(self.tokens + (self.max_tokens or 0), 4 * self.values, 0)

    @property
    def size(self) -> int:
        """The bytes of the prompt's UTF-8 or ids."""
        return self.tokens * (1 if isinstance(self.prompt, str) else 4)

    @property
    def samples_logprobs(self) -> bool:
        """Whether it asks for those of sampled tokens."""
        return self.logprobs is not None and not (self.echo and self.max_tokens == 0)

    @property
    def passed_on(self) -> dict[str, Any]:
        """The fields that the engine gets."""
        ours = {"model", "n", "timeout_s", *_IGNORED, *_NEUTRAL}
        return self.model_dump(mode="json", exclude=ours, exclude_none=True)

    def numbered(self, number: int) -> CompletionRequest:
        """The request for one of several answers, which differ also if there is a seed."""
        seed = None if self.seed is None else self.seed + number
        return self.model_copy(update={"seed": seed})


def merged(answers: Sequence[dict[str, Any]], prompts: int = 1) -> dict[str, Any]:
    """Completions of one prompt as one, which is counted once; or of as many prompts as answers."""
    whole = answers[0]
    choices = (choice for answer in answers for choice in answer["choices"])
    whole["choices"] = [{**choice, "index": index} for index, choice in enumerate(choices)]
    for other in (answer.get("usage") for answer in answers[1:]):
        if other and (usage := whole.get("usage")):
            usage["completion_tokens"] += other["completion_tokens"]
            usage["prompt_tokens"] += other["prompt_tokens"] if prompts > 1 else 0
            usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    return whole
