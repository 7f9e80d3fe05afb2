import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_serve.engines.base import EngineError, LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.engines.caching import CachingEngine
from reward_serve.schema import Usage
from tests import virtual_time
from tests.virtual_time import in_virtual_time, settle

LABELS = ["0", "1"]


FAILS, IS_NO_NUMBER = 5, 6


class FakeEngine:
    """Answers with the sum of the prompt's tokens after a second; fails for some sums."""

    max_model_len = 128
    tokenizer: Any = None

    def __init__(self) -> None:
        self.asked = 0
        self.at_work: list[str] = []

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        number = await self._work(prompt, labels)
        logprob = math.nan if number == IS_NO_NUMBER else float(number)
        usage = Usage(prompt_tokens=len(prompt.token_ids), completion_tokens=1)
        return LabelOutput(dict.fromkeys(labels, logprob), usage)

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        number = await self._work(prompt, "text")
        return TextOutput(str(number) * 10 ** (number % 5), False, Usage(prompt_tokens=1))

    async def _work(self, prompt: Prompt, kind: object) -> int:
        self.asked += 1
        question, number = f"{prompt.token_ids} {kind}", sum(prompt.token_ids)
        assert question not in self.at_work, "computed twice at once"
        self.at_work.append(question)
        try:
            await asyncio.sleep(1)
        finally:
            self.at_work.remove(question)
        if number == FAILS:
            raise EngineError("gone")
        return number


def asking(*token_ids: int) -> Prompt:
    return Prompt((), list(token_ids))


@in_virtual_time
async def test_an_equal_question_is_answered_without_the_engine() -> None:
    engine = FakeEngine()
    cache = CachingEngine(engine, 2**20)
    first = await cache.label_logprobs(asking(1, 2), LABELS)
    again = await cache.label_logprobs(asking(1, 2), LABELS)

    assert engine.asked == 1
    assert again.logprobs == first.logprobs
    assert (first.cached, again.cached) == (False, True)
    assert again.usage == Usage(prompt_tokens=2, cached_tokens=2, completion_tokens=0)
    assert (cache.hits, cache.misses) == (1, 1)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ((asking(1, 2), ["0"]), (asking(2, 1), ["0"])),
        ((asking(1, 2), ["0"]), (asking(1), ["2", "0"])),
        ((asking(1), ["0", "1"]), (asking(1), ["1", "0"])),
        ((asking(258), ["0"]), (asking(2, 1), ["0"])),
        ((Prompt([{"content": "18"}]), ["0"]), (Prompt([{"content": "19"}]), ["0"])),
        (
            (Prompt([{"content": [{"url": "a"}]}]), "0"),
            (Prompt([{"content": [{"url": "b"}]}]), "0"),
        ),
    ],
)
@in_virtual_time
async def test_different_questions_are_both_asked(first: Any, other: Any) -> None:
    engine = FakeEngine()
    cache = CachingEngine(engine, 2**20)
    for question in (first, other, first, other):
        await cache.label_logprobs(*question)
    assert engine.asked == 2


@in_virtual_time
async def test_greedy_text_is_cached_and_sampled_text_is_not() -> None:
    cache = CachingEngine(FakeEngine(), 2**20)

    async def is_cached(temperature: float = 0.0, max_tokens: int = 8, **more: Any) -> bool:
        output = await cache.generate(asking(1), Sampling(max_tokens, temperature, **more))
        return output.cached

    assert [await is_cached() for _ in range(2)] == [False, True]
    assert [await is_cached(0.7) for _ in range(2)] == [False, False]
    assert not await is_cached(max_tokens=9)
    assert not await is_cached(thinking_tokens=4)


@in_virtual_time
async def test_a_call_is_aborted_when_its_last_caller_leaves_and_can_be_repeated() -> None:
    engine = FakeEngine()
    cache = CachingEngine(engine, 2**20)

    def call() -> asyncio.Future[LabelOutput]:
        return asyncio.ensure_future(cache.label_logprobs(asking(1), LABELS))

    first, second = call(), call()
    await settle()
    first.cancel()
    await settle()
    assert (engine.asked, len(engine.at_work)) == (1, 1)
    second.cancel()
    later = call()  # while the first is being aborted
    await settle()
    joined = call()
    assert (await later).logprobs == (await joined).logprobs == {"0": 1.0, "1": 1.0}
    assert engine.asked == 2


@pytest.mark.parametrize("number", [FAILS, IS_NO_NUMBER])
@in_virtual_time
async def test_a_failure_is_not_kept(number: int) -> None:
    engine = FakeEngine()
    cache = CachingEngine(engine, 2**20)
    for asked in (1, 2):
        await asyncio.wait([asyncio.ensure_future(cache.label_logprobs(asking(number), LABELS))])
        assert engine.asked == asked


@in_virtual_time
async def test_the_least_recently_used_output_is_evicted_first() -> None:
    cache = CachingEngine(FakeEngine(), max_bytes=2 * 1_150)  # an output with one label
    for token in (1, 2, 1, 3):  # 3 evicts 2
        await cache.label_logprobs(asking(token), ["0"])

    assert (await cache.label_logprobs(asking(1), ["0"])).cached
    assert not (await cache.label_logprobs(asking(2), ["0"])).cached


calls = st.tuples(
    st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), st.integers(0, 6), st.booleans(), st.floats(0.5, 3)
)


@given(st.lists(calls, max_size=40), st.sampled_from([0, 1_500, 7_000, 45_000, 2**20]))
def test_every_answer_is_its_own_questions_and_the_cache_stays_within_bounds(
    expected: list[tuple[float, int, bool, float]], max_bytes: int
) -> None:
    """Each caller comes at a time, asks for labels or for text, and has some patience."""

    async def ask(
        cache: CachingEngine, at_s: float, number: int, label: bool, patience_s: float
    ) -> None:
        await asyncio.sleep(at_s)
        with suppress(EngineError, TimeoutError):
            async with asyncio.timeout(patience_s):
                if label:
                    (logprob,) = (
                        await cache.label_logprobs(asking(number), ["7"])
                    ).logprobs.values()
                    assert logprob == number or (math.isnan(logprob) and number == IS_NO_NUMBER)
                else:
                    output = await cache.generate(asking(number), Sampling(9))
                    assert output.text == str(number) * 10 ** (number % 5)
            assert number != FAILS
        assert cache._kept.currsize <= max_bytes

    async def main() -> None:
        cache = CachingEngine(FakeEngine(), max_bytes)
        async with asyncio.timeout(100):
            await asyncio.gather(*(ask(cache, *call) for call in expected))
        assert cache.hits + cache.misses == len(expected)

    virtual_time.run(main)
