"""What a reward model asks of an inference engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reward_serve.schema import Usage

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


class EngineError(RuntimeError):
    """The engine failed at a request, or is gone."""


class OverloadedError(RuntimeError):
    """There is no room for the request, or none in time; nothing was done.

    Attributes:
        retry_after_s: when there may be room again, within 1 to 60 s.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        self.retry_after_s = min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, retry_after_s))
        super().__init__(f"{message}; retry after {self.retry_after_s:.0f} s")


class Encoder(Protocol):
    """Turns text into tokens: trusted text, and untrusted."""

    def encode_control(self, text: str) -> list[int]:
        """Token ids of trusted text: special tokens in it are control tokens."""

    def encode_plain(self, text: str) -> tuple[list[int], list[int]]:
        """Token ids of untrusted text, and where each starts; special tokens in it stay text."""

    def tokens(self, token_ids: Sequence[int]) -> list[tuple[str, bool]]:
        """Each token's text, and whether it is a special token."""


class Tokenizer(Encoder, Protocol):
    """A chat model's tokenizer."""

    def chat(self, messages: Sequence[Mapping[str, str]], enable_thinking: bool) -> str:
        """The conversation as text, up to where the assistant's turn begins."""


class ConversationTokenizer(Encoder, Protocol):
    """A classifier's tokenizer."""

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> str:
        """A whole conversation as text, its last turn ended."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What an engine is asked.

    Attributes:
        messages: the conversation, each turn a ``role`` and its ``content``.
        token_ids: the same as tokens, where the engine has a tokenizer.
        label_ids: likewise, each label's token where it follows the prompt.
        cut_characters: characters of the response that did not fit and were left out.
        head_characters: of the response's text, those before what was cut out of its middle.
        fields: the text of each field as it stands in the prompt.
    """

    messages: Sequence[Mapping[str, str]]
    token_ids: list[int] = field(default_factory=list)
    label_ids: Mapping[str, int] = field(default_factory=dict)
    cut_characters: int = 0
    head_characters: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an engine writes.

    Attributes:
        max_tokens: most tokens written, thinking included.
        temperature: 0 for the likeliest text.
        top_p: as in vLLM.
        thinking_tokens: most of them for thinking, where the engine can end it.
        sample: which of several; each is drawn anew, and again the same.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    thinking_tokens: int | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class LabelOutput:
    """One forward pass: label to log-probability."""

    logprobs: Mapping[str, float]
    usage: Usage
    cached: bool = False


@dataclass(frozen=True, slots=True)
class TextOutput:
    """Written text; ``cut_off`` when it ran into its token limit.

    ``cached``, here and above: the engine was not asked for it anew.
    """

    text: str
    cut_off: bool
    usage: Usage
    cached: bool = False


@dataclass(frozen=True, slots=True)
class LogitsOutput:
    """One forward pass of a sequence-classification model: its logits, without an activation."""

    logits: Sequence[float]
    usage: Usage


class FrozenModel(Protocol):
    """What every engine is: a model whose weights never change. Cancelling a call aborts its work.

    Attributes:
        max_model_len: most tokens of a prompt and what is written after it.
    """

    max_model_len: int

    def describe(self) -> dict[str, str]:
        """Weights, revision, dtype, device and engine version: what its answers depend on."""

    async def failure(self) -> str | None:
        """Why the engine can serve no more; None while it can."""

    def close(self) -> None:
        """End the engine and its processes."""


class Engine(FrozenModel, Protocol):
    """A language model that reads labels and writes."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The model's; None where the engine takes messages alone."""

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """The log-probability of each label as the next token.

        Raises:
            EngineError: the engine failed.
            OverloadedError: the engine has no room for it.
        """

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Text that continues the conversation; raises as ``label_logprobs``."""


class ClassifierEngine(FrozenModel, Protocol):
    """A sequence-classification model that reads conversations of token ids."""

    @property
    def tokenizer(self) -> ConversationTokenizer:
        """The model's."""

    async def logits(self, token_ids: Sequence[int]) -> LogitsOutput:
        """One logit a label.

        Raises:
            EngineError: the engine failed.
        """
