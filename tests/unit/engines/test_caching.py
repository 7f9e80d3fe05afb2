from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.engines.base import EngineError, LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.engines.caching import CachingEngine
from reward_serve.schema import Usage

OF_A_LABEL = 1_150
"""Bytes of an output with one label."""


class Engine:
    """Answers with the sum of the prompt's tokens once ``go`` is set."""

    max_model_len = 128

    def __init__(self) -> None:
        self.tokenizer: Any = None
        self.asked: list[tuple[int, ...]] = []
        self.aborted = 0
        self.go = asyncio.Event()
        self.go.set()
        self.fault: Exception | None = None
        self.logprob: float | None = None

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        await self._work(prompt)
        logprob = float(sum(prompt.token_ids)) if self.logprob is None else self.logprob
        return LabelOutput(dict.fromkeys(labels, logprob), usage(prompt))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        await self._work(prompt)
        text = f"{len(self.asked)}: {sum(prompt.token_ids)}"
        return TextOutput(text, False, usage(prompt))

    async def _work(self, prompt: Prompt) -> None:
        self.asked.append(tuple(prompt.token_ids))
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.aborted += 1
            raise
        if self.fault is not None:
            raise self.fault


def usage(prompt: Prompt) -> Usage:
    return Usage(prompt_tokens=len(prompt.token_ids), completion_tokens=1)


def asking(*token_ids: int) -> Prompt:
    return Prompt((), list(token_ids))


def cached(engine: Engine, max_bytes: int = 2**20) -> CachingEngine:
    return CachingEngine(engine, max_bytes)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_equal_question_is_answered_without_the_engine() -> None:
    engine = Engine()
    cache = cached(engine)
    first = await cache.label_logprobs(asking(1, 2), ["0", "1"])
    again = await cache.label_logprobs(asking(1, 2), ["0", "1"])

    assert len(engine.asked) == 1
    assert again.logprobs == first.logprobs
    assert (first.cached, again.cached) == (False, True)
    assert again.usage == Usage(prompt_tokens=2, cached_tokens=2, completion_tokens=0)
    assert (cache.hits, cache.misses) == (1, 1)


async def test_concurrent_equal_questions_are_computed_once() -> None:
    engine = Engine()
    cache = cached(engine)
    engine.go.clear()
    calls = [asyncio.ensure_future(cache.label_logprobs(asking(1, 2), ["0"])) for _ in range(5)]
    await settled()
    engine.go.set()
    outputs = await asyncio.gather(*calls)

    assert len(engine.asked) == 1
    assert [output.cached for output in outputs] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (([1, 2], [0]), ([2, 1], [0])),
        (([1, 2], [0]), ([1], [2, 0])),
        (([1], [0, 1]), ([1], [1, 0])),
        (([258], [0]), ([2, 1], [0])),
    ],
)
async def test_different_questions_are_both_asked(one: Any, other: Any) -> None:
    engine = Engine()
    cache = cached(engine)
    await cache.label_logprobs(asking(*one[0]), list(map(str, one[1])))
    await cache.label_logprobs(asking(*other[0]), list(map(str, other[1])))

    assert len(engine.asked) == 2


async def test_without_token_ids_the_messages_are_the_key() -> None:
    engine = Engine()
    cache = cached(engine)
    for text in ("18", "18", "19"):
        await cache.label_logprobs(Prompt([{"role": "user", "content": text}]), ["0"])

    assert len(engine.asked) == 2


async def test_greedy_text_is_cached_and_sampled_text_is_not() -> None:
    engine = Engine()
    cache = cached(engine)

    async def ask(temperature: float, max_tokens: int = 8, **more: int) -> TextOutput:
        return await cache.generate(asking(1), Sampling(max_tokens, temperature, **more))

    greedy = [await ask(0.0) for _ in range(2)]
    sampled = [await ask(0.7) for _ in range(2)]
    assert [output.cached for output in (*greedy, *sampled)] == [False, True, False, False]
    assert not (await ask(0.0, max_tokens=9)).cached
    assert not (await ask(0.0, thinking_tokens=4)).cached
    assert not (await cache.label_logprobs(asking(1), ["8"])).cached


async def test_a_failure_reaches_all_callers_and_is_not_cached() -> None:
    engine = Engine()
    cache = cached(engine)
    engine.fault = EngineError("gone")
    engine.go.clear()
    calls = [asyncio.ensure_future(cache.label_logprobs(asking(1), ["0"])) for _ in range(3)]
    await settled()
    engine.go.set()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    engine.fault = None

    assert [type(error) for error in ends] == [EngineError] * 3
    assert not (await cache.label_logprobs(asking(1), ["0"])).cached
    assert len(engine.asked) == 2


async def test_a_cancelled_caller_does_not_abort_the_others() -> None:
    engine = Engine()
    cache = cached(engine)
    engine.go.clear()
    calls = [asyncio.ensure_future(cache.label_logprobs(asking(1), ["0"])) for _ in range(3)]
    await settled()
    calls[0].cancel()
    await settled()
    engine.go.set()

    assert (await calls[1]).logprobs == (await calls[2]).logprobs
    assert engine.aborted == 0


async def test_a_call_is_aborted_when_all_its_callers_are_cancelled_and_can_be_repeated() -> None:
    engine = Engine()
    cache = cached(engine)
    engine.go.clear()
    calls = [asyncio.ensure_future(cache.label_logprobs(asking(1), ["0"])) for _ in range(2)]
    await settled()
    for call in calls:
        call.cancel()
    later = asyncio.ensure_future(
        cache.label_logprobs(asking(1), ["0"])
    )  # before the abort is done
    await settled()
    engine.go.set()

    assert (await later).logprobs == {"0": 1.0}
    assert (engine.aborted, len(engine.asked)) == (1, 2)
    assert (await cache.label_logprobs(asking(1), ["0"])).cached


async def test_the_least_recently_used_output_is_evicted_first() -> None:
    cache = cached(Engine(), max_bytes=2 * OF_A_LABEL)
    for token in (1, 2, 1, 3):  # 3 evicts 2
        await cache.label_logprobs(asking(token), ["0"])

    assert (await cache.label_logprobs(asking(1), ["0"])).cached
    assert not (await cache.label_logprobs(asking(2), ["0"])).cached


async def test_nan_probabilities_are_not_cached() -> None:
    engine = Engine()
    cache = cached(engine)
    engine.logprob = math.nan
    assert math.isnan((await cache.label_logprobs(asking(1), ["0"])).logprobs["0"])
    engine.logprob = None
    again = await cache.label_logprobs(asking(1), ["0"])

    assert (again.logprobs, again.cached) == ({"0": 1.0}, False)


async def test_the_cache_stays_within_its_bytes() -> None:
    engine = Engine()
    cache = cached(engine, max_bytes=12_000)
    for token in range(50):
        await cache.label_logprobs(asking(token), ["0"])

    assert len(cache._kept) == 10
    assert (await cache.label_logprobs(asking(49), ["0"])).cached


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 4))
def test_concurrent_questions_in_any_order_get_their_own_answers(
    questions: list[int], kept: int
) -> None:
    async def ask() -> None:
        engine = Engine()
        cache = cached(engine, max_bytes=kept * OF_A_LABEL)
        outputs = await asyncio.gather(*(cache.label_logprobs(asking(n), ["7"]) for n in questions))
        assert [output.logprobs["7"] for output in outputs] == [float(n) for n in questions]
        assert len(engine.asked) == len(set(questions)) == cache.misses
        assert cache.hits == len(questions) - cache.misses
        assert len(cache._kept) <= kept

    asyncio.run(ask())
