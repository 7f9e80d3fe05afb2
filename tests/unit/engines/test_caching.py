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
from tests import virtual_time
from tests.virtual_time import in_virtual_time, settle

LABELS = ["0", "1"]


class FakeEngine:
    """Answers with the sum of the prompt's tokens, at once or when the test says so."""

    max_model_len = 128
    tokenizer: Any = None

    def __init__(self, waits: bool = False) -> None:
        self._waits = waits
        self.asked = 0
        self.at_work: list[tuple[str, asyncio.Future[str]]] = []

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        fate = await self._work(f"label {prompt.token_ids} {labels}")
        logprob = math.nan if fate == "no number" else float(sum(prompt.token_ids))
        usage = Usage(prompt_tokens=len(prompt.token_ids), completion_tokens=1)
        return LabelOutput(dict.fromkeys(labels, logprob), usage)

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        await self._work(f"write {prompt.token_ids}")
        number = sum(prompt.token_ids)
        return TextOutput(str(number) * 10**number, False, Usage(prompt_tokens=1))

    async def _work(self, question: str) -> str:
        self.asked += 1
        call = question, asyncio.get_running_loop().create_future()
        if not self._waits:
            call[1].set_result("answer")
        assert question not in [other for other, _ in self.at_work], "computed twice at once"
        self.at_work.append(call)
        try:
            fate: str = await call[1]
        finally:
            self.at_work.remove(call)
        if fate == "fail":
            raise EngineError("gone")
        return fate


def asking(*token_ids: int) -> Prompt:
    return Prompt((), list(token_ids))


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
    ("one", "other"),
    [
        ((asking(1, 2), ["0"]), (asking(2, 1), ["0"])),
        ((asking(1, 2), ["0"]), (asking(1), ["2", "0"])),
        ((asking(1), ["0", "1"]), (asking(1), ["1", "0"])),
        ((asking(258), ["0"]), (asking(2, 1), ["0"])),
        ((Prompt([{"content": "18"}]), ["0"]), (Prompt([{"content": "19"}]), ["0"])),
    ],
)
async def test_different_questions_are_both_asked(one: Any, other: Any) -> None:
    engine = FakeEngine()
    cache = CachingEngine(engine, 2**20)
    for question in (one, other, one, other):
        await cache.label_logprobs(*question)
    assert engine.asked == 2


async def test_greedy_text_is_cached_and_sampled_text_is_not() -> None:
    cache = CachingEngine(FakeEngine(), 2**20)

    async def is_cached(temperature: float = 0.0, max_tokens: int = 8, **more: int) -> bool:
        output = await cache.generate(asking(1), Sampling(max_tokens, temperature, **more))
        return output.cached

    assert [await is_cached() for _ in range(2)] == [False, True]
    assert [await is_cached(0.7) for _ in range(2)] == [False, False]
    assert not await is_cached(max_tokens=9)
    assert not await is_cached(thinking_tokens=4)


@in_virtual_time
async def test_a_call_is_aborted_when_its_last_caller_leaves_and_can_be_repeated() -> None:
    engine = FakeEngine(waits=True)
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
    await settle()
    assert (engine.asked, len(engine.at_work)) == (2, 1)
    engine.at_work[0][1].set_result("answer")
    assert (await later).logprobs == (await joined).logprobs == {"0": 1.0, "1": 1.0}


@pytest.mark.parametrize("fate", ["fail", "no number"])
@in_virtual_time
async def test_a_failure_is_not_kept(fate: str) -> None:
    engine = FakeEngine(waits=True)
    cache = CachingEngine(engine, 2**20)
    for asked in (1, 2):
        call = asyncio.ensure_future(cache.label_logprobs(asking(1), LABELS))
        await settle()
        assert engine.asked == asked
        engine.at_work[0][1].set_result(fate)
        await asyncio.wait([call])


async def test_the_least_recently_used_output_is_evicted_first() -> None:
    cache = CachingEngine(FakeEngine(), max_bytes=2 * 1_150)  # an output with one label
    for token in (1, 2, 1, 3):  # 3 evicts 2
        await cache.label_logprobs(asking(token), ["0"])

    assert (await cache.label_logprobs(asking(1), ["0"])).cached
    assert not (await cache.label_logprobs(asking(2), ["0"])).cached


happenings = st.one_of(
    st.tuples(st.sampled_from(["label", "write", "settle"]), st.integers(0, 4)),
    st.tuples(st.sampled_from(["answer", "fail", "no number"]), st.integers(0, 5)),
    st.tuples(st.just("give up"), st.integers(0, 20)),
)


@given(st.lists(happenings, max_size=50), st.sampled_from([0, 1_500, 7_000, 45_000, 2**20]))
def test_every_answer_is_its_own_questions_and_the_cache_stays_within_bounds(
    happened: list[tuple[str, int]], max_bytes: int
) -> None:
    engine = FakeEngine(waits=True)
    cache = CachingEngine(engine, max_bytes)
    asked: list[tuple[str, int, asyncio.Future[Any]]] = []

    def ask(kind: str, number: int) -> asyncio.Future[Any]:
        prompt = asking(number)
        if kind == "label":
            return asyncio.ensure_future(cache.label_logprobs(prompt, ["7"]))
        return asyncio.ensure_future(cache.generate(prompt, Sampling(9)))

    async def asks() -> None:
        for kind, number in happened:
            if kind in ("label", "write"):
                asked.append((kind, number, ask(kind, number)))
                await settle()  # so that a cancelled call leaves the engine first
            elif kind == "give up" and asked:
                asked[number % len(asked)][2].cancel()
            elif kind == "settle":
                await settle()
            elif engine.at_work:
                _, fate = engine.at_work[number % len(engine.at_work)]
                if not fate.done():
                    fate.set_result(kind)
            assert cache._kept.currsize <= max_bytes
        await settle()
        while engine.at_work:
            engine.at_work[0][1].set_result("answer")
            await settle()

    virtual_time.run(asks)
    for kind, number, task in asked:
        assert task.done(), "a caller waits forever"
        if task.cancelled() or isinstance(task.exception(), EngineError):
            continue
        if kind == "write":
            assert task.result().text == str(number) * 10**number
        else:
            logprob = task.result().logprobs["7"]
            assert logprob == number or math.isnan(logprob)
    assert cache.hits + cache.misses == len(asked)
