"""A cache in front of an engine, so that equal prompts are computed once.

GRPO samples repeat, increasingly so as training progresses. The key is the engine's input (token
ids, or messages, and sampling parameters), so it covers everything that a verdict depends on except
the weights, which belong to the engine.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from array import array
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cachetools import LRUCache

from reward_serve.engines.base import LabelOutput, LanguageModel, Prompt, Sampling, TextOutput
from reward_serve.schema import Usage

Output = TypeVar("Output", LabelOutput, TextOutput)

_ENTRY_BYTES = 1_000  # a cache entry without its text or labels
_LABEL_BYTES = 150


@dataclass
class _Flight:
    task: asyncio.Future[Any]
    waiters: int = 0


class CachingEngine:
    """An LRU cache of an engine's outputs, which also joins concurrent calls with equal input.

    A reused output has ``cached`` set, and all of its prompt tokens count as cached. Failures are
    raised to every waiting caller and are not cached; neither is sampled text. A call to the engine
    is aborted when all of its callers are cancelled.

    Args:
        engine: the engine.
        max_bytes: maximum estimated memory of cached outputs; one takes 1,000 bytes or more.
    """

    def __init__(self, engine: LanguageModel, max_bytes: int) -> None:
        self.tokenizer = engine.tokenizer
        self.max_model_len = engine.max_model_len
        self.hits = 0  # calls answered from the cache or by a concurrent call
        self.misses = 0  # calls passed to the engine
        self._engine = engine
        self._kept: LRUCache[bytes, LabelOutput | TextOutput] = LRUCache(max_bytes, _size)
        self._flights: dict[bytes, _Flight] = {}

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """The log-probability of each label as the next token."""
        key = _key("label", prompt, labels)
        return await self._once(key, lambda: self._engine.label_logprobs(prompt, labels))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Generated text; not cached if it is sampled."""
        if sampling.temperature > 0:
            return await self._engine.generate(prompt, sampling)
        key = _key("generate", prompt, (sampling.max_tokens, sampling.thinking_tokens))
        return await self._once(key, lambda: self._engine.generate(prompt, sampling))

    def forget(self, prompt: Prompt, sampling: Sampling) -> None:
        """Drop a text without a verdict, so that the next call asks the engine again."""
        key = _key("generate", prompt, (sampling.max_tokens, sampling.thinking_tokens))
        self._kept.pop(key, None)

    async def _once(self, key: bytes, ask: Callable[[], Awaitable[Output]]) -> Output:
        kept: Any = self._kept.get(key)
        if kept is not None:
            self.hits += 1
            repeated: Output = _cached(kept)
            return repeated
        flight = self._flights.get(key)
        joined = flight is not None
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.ensure_future(ask()))
            flight.task.add_done_callback(lambda task: self._store(key, task))
        self.hits += joined
        self.misses += not joined
        flight.waiters += 1
        try:
            output: Output = await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                del self._flights[key]  # so that no call joins an aborted one
                flight.task.cancel()
        return _cached(output) if joined else output

    def _store(self, key: bytes, task: asyncio.Future[Any]) -> None:
        flight = self._flights.get(key)
        if flight is not None and flight.task is task:
            del self._flights[key]
        if task.cancelled() or task.exception() is not None or not _is_sound(task.result()):
            return
        with suppress(ValueError):  # larger than the cache
            self._kept[key] = task.result()


def _key(kind: str, prompt: Prompt, parameters: Sequence[object]) -> bytes:
    digest = hashlib.blake2b(repr((kind, *parameters)).encode(), digest_size=16)
    digest.update(array("q", prompt.token_ids).tobytes() or repr(prompt.messages).encode())
    return digest.digest()


def _cached(output: Output) -> Output:
    tokens = output.usage.prompt_tokens
    return replace(output, cached=True, usage=Usage(prompt_tokens=tokens, cached_tokens=tokens))


def _is_sound(output: LabelOutput | TextOutput) -> bool:
    """Whether the output is usable; NaN probabilities, or no label at all, are not."""
    if isinstance(output, TextOutput):
        return True
    values = output.logprobs.values()
    return not any(map(math.isnan, values)) and max(values, default=0.0) > -math.inf


def _size(output: LabelOutput | TextOutput) -> int:
    if isinstance(output, TextOutput):
        return _ENTRY_BYTES + 4 * len(output.text)
    return _ENTRY_BYTES + _LABEL_BYTES * len(output.logprobs)
