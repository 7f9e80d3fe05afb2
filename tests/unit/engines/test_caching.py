from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from reward_serve.engines.base import EngineError, LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.engines.caching import CachingEngine
from reward_serve.schema import Usage
from tests.virtual_time import settle

LABELS = ["0", "1"]


class FakeEngine:
    """Answers with the sum of the prompt's tokens once ``go`` is set."""

    max_model_len = 128
    tokenizer: Any = None

    def __init__(self) -> None:
        self.asked = self.aborted = 0
        self.go = asyncio.Event()
        self.go.set()
        self.fault: Exception | None = None

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        await self._work()
        usage = Usage(prompt_tokens=len(prompt.token_ids), completion_tokens=1)
        return LabelOutput(dict.fromkeys(labels, float(sum(prompt.token_ids))), usage)

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        await self._work()
        return TextOutput(str(self.asked), False, Usage())

    async def _work(self) -> None:
        self.asked += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.aborted += 1
            raise
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def cache(engine: FakeEngine) -> CachingEngine:
    return CachingEngine(engine, 2**20)


def asking(*token_ids: int) -> Prompt:
    return Prompt((), list(token_ids))


def several(cache: CachingEngine, count: int) -> list[asyncio.Future[LabelOutput]]:
    """Concurrent calls with the same question."""
    return [asyncio.ensure_future(cache.label_logprobs(asking(1), LABELS)) for _ in range(count)]


async def test_an_equal_question_is_answered_without_the_engine(
    engine: FakeEngine, cache: CachingEngine
) -> None:
    first = await cache.label_logprobs(asking(1, 2), LABELS)
    again = await cache.label_logprobs(asking(1, 2), LABELS)

    assert engine.asked == 1
    assert again.logprobs == first.logprobs
    assert (first.cached, again.cached) == (False, True)
    assert again.usage == Usage(prompt_tokens=2, cached_tokens=2, completion_tokens=0)
    assert (cache.hits, cache.misses) == (1, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([1, 2], [0]), ([2, 1], [0])),
        (([1, 2], [0]), ([1], [2, 0])),
        (([1], [0, 1]), ([1], [1, 0])),
        (([258], [0]), ([2, 1], [0])),
    ],
)
async def test_different_questions_are_both_asked(
    one: Any, other: Any, engine: FakeEngine, cache: CachingEngine
) -> None:
    for token_ids, labels in (one, other):
        await cache.label_logprobs(asking(*token_ids), list(map(str, labels)))
    assert engine.asked == 2


async def test_without_token_ids_the_messages_are_the_key(
    engine: FakeEngine, cache: CachingEngine
) -> None:
    for text in ("18", "18", "19"):
        await cache.label_logprobs(Prompt([{"role": "user", "content": text}]), LABELS)
    assert engine.asked == 2


async def test_greedy_text_is_cached_and_sampled_text_is_not(cache: CachingEngine) -> None:
    async def is_cached(temperature: float = 0.0, max_tokens: int = 8, **more: int) -> bool:
        output = await cache.generate(asking(1), Sampling(max_tokens, temperature, **more))
        return output.cached

    assert [await is_cached() for _ in range(2)] == [False, True]
    assert [await is_cached(0.7) for _ in range(2)] == [False, False]
    assert not await is_cached(max_tokens=9)
    assert not await is_cached(thinking_tokens=4)
    assert not (await cache.label_logprobs(asking(1), ["8"])).cached


async def test_a_failure_reaches_all_callers_and_is_not_cached(
    engine: FakeEngine, cache: CachingEngine
) -> None:
    engine.fault = EngineError("gone")
    ends = await asyncio.gather(*several(cache, 3), return_exceptions=True)
    engine.fault = None

    assert [type(error) for error in ends] == [EngineError] * 3
    assert not (await cache.label_logprobs(asking(1), LABELS)).cached
    assert engine.asked == 2


async def test_a_cancelled_caller_does_not_abort_the_others(
    engine: FakeEngine, cache: CachingEngine
) -> None:
    engine.go.clear()
    calls = several(cache, 3)
    await settle()
    calls[0].cancel()
    await settle()
    engine.go.set()

    assert (await calls[1]).logprobs == (await calls[2]).logprobs
    assert (engine.asked, engine.aborted) == (1, 0)


async def test_a_call_is_aborted_when_all_its_callers_are_cancelled_and_can_be_repeated(
    engine: FakeEngine, cache: CachingEngine
) -> None:
    engine.go.clear()
    calls = several(cache, 2)
    await settle()
    for call in calls:
        call.cancel()
    (later,) = several(cache, 1)  # before the abort is done
    await settle()
    engine.go.set()

    assert (await later).logprobs == {"0": 1.0, "1": 1.0}
    assert (engine.aborted, engine.asked) == (1, 2)
    assert (await cache.label_logprobs(asking(1), LABELS)).cached


async def test_the_least_recently_used_output_is_evicted_first(engine: FakeEngine) -> None:
    cache = CachingEngine(engine, max_bytes=2 * 1_150)  # an output with one label
    for token in (1, 2, 1, 3):  # 3 evicts 2
        await cache.label_logprobs(asking(token), ["0"])

    assert (await cache.label_logprobs(asking(1), ["0"])).cached
    assert not (await cache.label_logprobs(asking(2), ["0"])).cached
