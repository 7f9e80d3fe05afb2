"""Random sequences of calls, answers, failures and cancellations."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reward_serve.engines.base import EngineError, LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.engines.caching import CachingEngine, _size
from reward_serve.schema import Usage
from tests import virtual_time
from tests.virtual_time import settle

Op = tuple[str, int]

ops = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["label", "write"]), st.integers(0, 4)),
        st.tuples(st.sampled_from(["answer", "fail", "no number"]), st.integers(0, 5)),
        st.tuples(st.just("give up"), st.integers(0, 20)),
        st.tuples(st.just("settle"), st.just(0)),
    ),
    max_size=50,
)


class Engine:
    """Answers with the question's number, when the test says so."""

    max_model_len = 128
    tokenizer: Any = None

    def __init__(self) -> None:
        self.at_work: list[tuple[str, asyncio.Future[str]]] = []

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        fate = await self._work(f"label {prompt.token_ids[0]}")
        logprob = math.nan if fate == "no number" else float(prompt.token_ids[0])
        return LabelOutput(dict.fromkeys(labels, logprob), Usage(prompt_tokens=1))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        await self._work(f"write {prompt.token_ids[0]}")
        return TextOutput(
            str(prompt.token_ids[0]) * 10 ** prompt.token_ids[0], False, Usage(prompt_tokens=1)
        )

    async def _work(self, question: str) -> str:
        call = question, asyncio.get_running_loop().create_future()
        assert question not in [other for other, _ in self.at_work], (
            "computed twice at the same time"
        )
        self.at_work.append(call)
        try:
            fate: str = await call[1]
        finally:
            self.at_work.remove(call)
        if fate == "fail":
            raise EngineError("gone")
        return fate


class Askers:
    """The callers, and each one's answer."""

    def __init__(self, max_bytes: int) -> None:
        self.engine = Engine()
        self.cache = CachingEngine(self.engine, max_bytes)
        self._max_bytes = max_bytes
        self._asked: list[tuple[Op, asyncio.Task[Any]]] = []

    async def do(self, op: Op) -> None:
        kind, number = op
        if kind in ("label", "write"):
            self._asked.append((op, asyncio.create_task(self._ask(op))))
            await settle()  # so that a cancelled call leaves the engine first
        elif kind == "give up" and self._asked:
            self._asked[number % len(self._asked)][1].cancel()
        elif kind == "settle":
            await settle()
        elif self.engine.at_work:
            _, fate = self.engine.at_work[number % len(self.engine.at_work)]
            if not fate.done():
                fate.set_result(kind)
        self._check()

    async def close(self) -> None:
        await settle()
        while self.engine.at_work:
            self.engine.at_work[0][1].set_result("answer")
            await settle()
            self._check()
        for (kind, number), task in self._asked:
            assert task.done(), "a caller waits forever"
            if task.cancelled() or isinstance(task.exception(), EngineError):
                continue
            output = task.result()
            if kind == "write":
                assert output.text == str(number) * 10**number
            else:
                (logprob,) = output.logprobs.values()
                assert logprob == number or math.isnan(logprob)
        assert self.cache.hits + self.cache.misses == len(self._asked)
        assert not self.cache._flights

    async def _ask(self, op: Op) -> Any:
        kind, number = op
        if kind == "label":
            return await self.cache.label_logprobs(Prompt((), [number]), ["7"])
        return await self.cache.generate(Prompt((), [number]), Sampling(9))

    def _check(self) -> None:
        kept = list(self.cache._kept.values())
        assert sum(map(_size, kept)) == self.cache._kept.currsize <= self._max_bytes
        for output in kept:
            assert isinstance(output, TextOutput) or not math.isnan(output.logprobs["7"])


@given(ops, st.sampled_from([0, 1_500, 4_000, 7_000, 45_000, 2**20]))
def test_every_answer_is_its_own_questions_and_the_cache_stays_within_bounds(
    happenings: list[Op], max_bytes: int
) -> None:
    async def asks() -> None:
        askers = Askers(max_bytes)
        for op in happenings:
            await askers.do(op)
        await askers.close()

    virtual_time.run(asks)
