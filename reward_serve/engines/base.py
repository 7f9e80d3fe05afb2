"""What a reward model asks of an inference engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reward_serve.judging.conversation import ConversationTokenizer
from reward_serve.judging.rendering import Tokenizer
from reward_serve.schema import Usage


class EngineError(RuntimeError):
    """The engine failed at a request, or is gone."""


@dataclass(frozen=True, slots=True)
class LabelOutput:
    """One forward pass: label token id to log-probability."""

    logprobs: Mapping[int, float]
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


class Engine(Protocol):
    """A frozen model that answers prompts of token ids.

    Cancelling a call aborts its work in the engine.
    """

    max_model_len: int

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's."""

    def describe(self) -> dict[str, str]:
        """Weights, revision, dtype, device and engine version: what a verdict depends on."""

    async def label_logprobs(
        self, token_ids: Sequence[int], label_ids: Sequence[int]
    ) -> LabelOutput:
        """The log-probability of each label token as the next token.

        Raises:
            EngineError: the engine failed.
        """

    async def generate(
        self,
        token_ids: Sequence[int],
        *,
        temperature: float,
        top_p: float,
        max_tokens: int,
        thinking_tokens: int | None = None,
        sample: int = 0,
    ) -> TextOutput:
        """Up to ``max_tokens`` written tokens.

        Args:
            token_ids: the prompt.
            temperature: 0 for the likeliest text.
            top_p: as in vLLM.
            max_tokens: most tokens written, thinking included.
            thinking_tokens: most of them for thinking, where the engine can end it.
            sample: which of several; each is drawn anew, and again the same.

        Raises:
            EngineError: the engine failed.
        """

    async def failure(self) -> str | None:
        """Why the engine can serve no more; None while it can."""

    def close(self) -> None:
        """End the engine and its processes."""


class ClassifierEngine(Protocol):
    """A frozen sequence-classification model that answers conversations of token ids.

    Cancelling a call aborts its work in the engine.
    """

    max_model_len: int

    @property
    def tokenizer(self) -> ConversationTokenizer:
        """The model's."""

    def describe(self) -> dict[str, str]:
        """Weights, revision, dtype, device and engine version: what a score depends on."""

    async def logits(self, token_ids: Sequence[int]) -> LogitsOutput:
        """One logit a label.

        Raises:
            EngineError: the engine failed.
        """

    async def failure(self) -> str | None:
        """Why the engine can serve no more; None while it can."""

    def close(self) -> None:
        """End the engine and its processes."""
