"""The interface between reward models and inference engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from reward_serve.explanation import Cut
from reward_serve.schema import Usage

TURN: ContextVar[int] = ContextVar("turn", default=0)
"""An item's place in line at the engine, lowest first, so that keys share it too."""

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


class EngineError(RuntimeError):
    """The engine failed on a request, or has stopped."""


class RefusedError(EngineError):
    """The engine refuses the request and always will."""


class EndpointDownError(EngineError):
    """The engine's endpoint answers nobody for now.

    Attributes:
        down_s: for how long, in seconds.
        is_refusal: whether it has refused the key or the model from the start.
    """

    def __init__(self, reason: str, down_s: float, is_refusal: bool) -> None:
        self.down_s, self.is_refusal = down_s, is_refusal
        super().__init__(reason)


class UnusableReplyError(EngineError):
    """The reply is final, and no verdict can be read from it."""


class OverloadedError(RuntimeError):
    """The request was rejected for lack of capacity and not processed.

    Attributes:
        retry_after_s: suggested pause before a retry, between 1 and 60 s.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        self.retry_after_s = min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, retry_after_s))
        super().__init__(f"{message}; retry after {self.retry_after_s:.0f} s")


class Tokenizer(Protocol):
    """A model's tokenizer and chat template, for trusted and untrusted text."""

    def encode_control(self, text: str) -> list[int]:
        """Tokenise trusted text; special tokens in it become control tokens."""

    def encode_plain(self, text: str) -> tuple[list[int], Sequence[int]]:
        """The token ids of untrusted text, and where each starts; special tokens stay text."""

    def defused(self, text: str) -> str:
        """Untrusted text within trusted text: ``encode_control`` finds no control token in it."""

    def chat(self, messages: Sequence[Mapping[str, Any]], enable_thinking: bool) -> str:
        """The conversation as text, up to the beginning of the assistant's turn."""

    def conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None
    ) -> str:
        """The complete conversation as text, including the end of its last turn."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt for an engine; without a tokenizer, it has no ``token_ids`` and ``label_ids``."""

    messages: Sequence[Mapping[str, Any]]  # each with role and content, a text or parts
    token_ids: list[int] = field(default_factory=list)  # of the messages
    label_ids: Mapping[str, int] = field(default_factory=dict)  # each label's after the prompt
    fields: Mapping[str, str] = field(default_factory=dict)  # as they appear in the prompt
    cut: Sequence[Cut] = ()  # what the response or conversation lacks
    cut_details: Mapping[str, int] = field(default_factory=dict)  # the same for a result's details


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of generated text."""

    max_tokens: int  # at most, with those of thinking
    temperature: float = 0.0  # 0: greedy decoding
    top_p: float = 1.0
    enable_thinking: bool = False  # by the prompt, if the chat template has this setting
    thinking_tokens: int | None = None  # at most, if the engine can limit them
    sample: int = 0  # seed offset; equal values give equal text


@dataclass(frozen=True, slots=True)
class LabelOutput:
    """The result of one forward pass: label to log-probability."""

    logprobs: Mapping[str, float]
    usage: Usage
    cached: bool = False  # reused from an earlier or concurrent call


@dataclass(frozen=True, slots=True)
class TextOutput:
    """Generated text; ``cut_off`` is set if it reached its token limit."""

    text: str
    cut_off: bool
    usage: Usage
    cached: bool = False  # reused from an earlier or concurrent call


@dataclass(frozen=True, slots=True)
class LogitsOutput:
    """The raw logits of one forward pass of a sequence-classification model."""

    logits: Sequence[float]
    usage: Usage


@dataclass(frozen=True, slots=True)
class LogprobsOutput:
    """Log-probabilities of a sequence's tokens, as numpy arrays; those of ``top_k`` best first."""

    logprobs: Any  # float32, (tokens,)
    top_ids: Any  # int32, (tokens, top_k)
    top_logprobs: Any  # float32, (tokens, top_k)
    usage: Usage


class FrozenModel(Protocol):
    """A model whose weights never change, and the engine that runs it."""

    outage: str | None = None
    """Why the engine answers nobody for now, and the remedy; None while it answers."""

    def describe(self) -> dict[str, str]:
        """Weights, revision, dtype, device and engine version, for fingerprints."""

    async def fatal_error(self) -> str | None:
        """Why the engine cannot serve any more; None while it can."""
        return None

    def close(self) -> None:
        """Stop the engine and its processes."""
        return


class LanguageModel(Protocol):
    """Scores labels and generates text. Cancelling a call aborts its work."""

    max_model_len: int  # maximum tokens of a prompt plus its completion

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer; None if the engine only accepts messages."""

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """The log-probability of each label as the next token.

        Raises:
            EngineError: the engine failed.
            OverloadedError: the engine has no capacity for it.
        """

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Generate the assistant's reply; raises like ``label_logprobs``."""


class Engine(LanguageModel, FrozenModel, Protocol):
    """An engine that runs a language model."""

    async def chat(self, body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """Answer a request of OpenAI's API that needs no check; raises like ``generate``."""


class TeacherEngine(FrozenModel, Protocol):
    """An engine that says how probable given tokens are."""

    max_model_len: int  # maximum tokens of a sequence plus one
    max_top_k: int
    vocabulary: int  # token ids are below it

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    async def prompt_logprobs(
        self, token_ids: Sequence[int], start: int, top_k: int
    ) -> LogprobsOutput:
        """The log-probability of each token from ``start`` on; raises like ``label_logprobs``."""

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a text completion of OpenAI's API that needs no check, as ``chat`` does."""


class ClassifierEngine(FrozenModel, Protocol):
    """A sequence-classification model that reads conversations of token ids."""

    max_model_len: int  # maximum tokens of a conversation plus one
    scores_steps: bool  # whether it is a process reward model, with two logits for each token

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    async def logits(self, token_ids: Sequence[int], tag: int | None = None) -> LogitsOutput:
        """One logit per label; of a process reward model, two at each token ``tag``.

        Cancelling the call aborts its work.

        Raises:
            EngineError: the engine failed.
        """
