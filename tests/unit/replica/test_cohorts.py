import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from reward_serve.engines.base import OverloadedError
from reward_serve.replica.groups import Cohorts
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure
from tests import virtual_time
from tests.tiers import share


class Bench:
    """Cohorts whose judge takes a second and gives each member its share of the cohort."""

    def __init__(self, limit: int = 100_000, takes_s: float = 1.0) -> None:
        self.cohorts = Cohorts(self._judge, wait=0.5, limit=limit)
        self.judged: list[list[str]] = []
        self.cancelled = 0
        self.takes_s = takes_s
        self.failure: ScoreResult | Exception | None = None

    async def _judge(
        self, members: Sequence[ScoreRequest], within_s: float, api_key: str | None
    ) -> Sequence[ScoreResult]:
        assert len({member.group for member in members}) == 1
        self.judged.append([member.judged for member in members])
        try:
            async with asyncio.timeout(within_s):
                await asyncio.sleep(self.takes_s)
        except TimeoutError:
            return [failure(Status.TIMEOUT, "late")] * len(members)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.failure, Exception):
            raise self.failure
        if self.failure is not None:
            return [self.failure] * len(members)
        score = len(members) / 64
        results = [ScoreResult(status=Status.OK, score=score, text=m.response) for m in members]
        lost = failure(Status.ERROR, "its comparisons failed")
        return [lost if m.response == "lost" else r for m, r in zip(members, results, strict=True)]

    async def ask(
        self, response: str, after_s: float = 0.0, api_key: str | None = None, **fields: Any
    ) -> ScoreResult:
        await asyncio.sleep(after_s)
        asked = {"group": "g", "group_size": 4, "timeout_s": 20.0, "question": "?", **fields}
        request = ScoreRequest.model_validate({"response": response, "id": response, **asked})
        return await self.cohorts.score(request, api_key)

    def is_empty(self) -> bool:
        return not (self.cohorts._waiting or self.cohorts._cohorts)


def turn(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("responses", "id_"), [(["r0", "r1", "r2", "r3"], "prompt"), (["same"] * 4, None)]
)
@virtual_time.in_virtual_time
async def test_a_whole_cohort_is_judged_at_once(responses: list[str], id_: str | None) -> None:
    bench, began = Bench(), now()
    asked = [bench.ask(response, after_s=i, id=id_) for i, response in enumerate(responses)]
    results = await asyncio.gather(*asked)
    assert now() - began == 4.0
    assert [result.text for result in results] == responses
    assert bench.judged == [responses]


@pytest.mark.parametrize("other", [{"reference": "19"}, {"messages": [turn("Or?")]}])
@virtual_time.in_virtual_time
async def test_prompts_of_one_group_are_not_judged_by_the_firsts_reference(other: Any) -> None:
    bench, prompt = Bench(), {"reference": "18", "messages": [turn("?")], "question": None}
    asked = [prompt, prompt | other, prompt, prompt | other]
    await asyncio.gather(
        *(bench.ask(f"r{i}", group_size=2, **fields) for i, fields in enumerate(asked))
    )
    assert bench.judged == [["r0", "r2"], ["r1", "r3"]]


@virtual_time.in_virtual_time
async def test_groups_of_two_api_keys_are_two_cohorts() -> None:
    bench = Bench()
    await asyncio.gather(*(bench.ask(f"r{i}", group_size=2, api_key="ab"[i % 2]) for i in range(4)))
    assert bench.judged == [["r0", "r2"], ["r1", "r3"]]


@virtual_time.in_virtual_time
async def test_without_a_member_the_rest_is_judged_half_way_to_the_first_deadline() -> None:
    bench, began = Bench(), now()
    results = await asyncio.gather(*(bench.ask(f"r{i}", after_s=i) for i in range(3)))
    assert now() - began == 11.0
    assert [result.score for result in results] == [3 / 64] * 3


@virtual_time.in_virtual_time
async def test_a_late_response_has_no_score_and_a_group_sent_again_is_judged_again() -> None:
    bench = Bench()
    first = asyncio.gather(*(bench.ask(f"r{i}") for i in range(3)))
    late = await bench.ask("r3", after_s=15)
    assert late.status is Status.TIMEOUT and "before this response arrived" in (late.reason or "")
    assert all(result.score for result in await first)
    again = await asyncio.gather(*(bench.ask(f"s{i}") for i in range(4)))
    assert [result.score for result in again] == [4 / 64] * 4
    await asyncio.sleep(60)
    assert bench.is_empty()


@virtual_time.in_virtual_time
async def test_a_member_that_is_sent_twice_counts_once_and_both_callers_have_its_result() -> None:
    bench = Bench()
    asked = [bench.ask(name) for name in ("r0", "r1", "r1", "r2", "r3")]
    results = await asyncio.gather(*asked)
    assert bench.judged == [["r0", "r1", "r2", "r3"]]
    assert [result.text for result in results] == ["r0", "r1", "r1", "r2", "r3"]
    assert (await bench.ask("r2")).text == "r2"  # its answer was lost on the way
    assert len(bench.judged) == 1


@virtual_time.in_virtual_time
async def test_a_caller_that_goes_leaves_its_cohort_and_the_last_one_ends_the_work() -> None:
    bench = Bench(takes_s=5.0)
    tasks = [asyncio.ensure_future(bench.ask(f"r{i}")) for i in range(3)]
    await asyncio.sleep(1)
    tasks[0].cancel()
    await asyncio.sleep(10)
    assert bench.judged == [["r1", "r2"]]
    for task in tasks:
        task.cancel()
    await virtual_time.settle()
    assert bench.cancelled == 1
    alone = asyncio.ensure_future(bench.ask("r9"))
    await asyncio.sleep(1)
    alone.cancel()
    await virtual_time.settle()
    assert bench.is_empty()


@virtual_time.in_virtual_time
async def test_a_cohort_that_failed_as_a_whole_may_come_again() -> None:
    bench = Bench()
    bench.failure = RuntimeError("gone")
    failed = await asyncio.gather(*(bench.ask(f"r{i}") for i in range(4)))
    assert {result.status for result in failed} == {Status.ERROR}
    bench.failure = None
    results = await asyncio.gather(*(bench.ask(f"r{i}") for i in range(4)))
    assert [result.score for result in results] == [4 / 64] * 4


@virtual_time.in_virtual_time
async def test_one_that_failed_among_others_is_not_worth_a_retry() -> None:
    bench = Bench()
    results = await asyncio.gather(*map(bench.ask, ("r0", "lost", "r2", "r3")))
    assert [result.status.value for result in results] == ["ok", "timeout", "ok", "ok"]


@virtual_time.in_virtual_time
async def test_beyond_the_limit_a_keys_requests_are_rejected_and_anothers_are_not() -> None:
    bench = Bench(limit=4)
    waiting = asyncio.gather(*(bench.ask(f"r{n}", group_size=8) for n in range(4)))
    with pytest.raises(OverloadedError, match="4 requests wait for their groups"):
        await bench.ask("r4", after_s=1, group_size=8)
    other = await asyncio.gather(*(bench.ask(text, api_key="b", group_size=2) for text in "ab"))
    assert [result.score for result in other] == [2 / 64] * 2
    await waiting


def test_no_cohort_hangs_whoever_is_lost_late_doubled_or_cancelled() -> None:
    chance = random.Random(48)
    count = share(1000, 100)

    async def member(bench: Bench, group: int, number: int, began: float) -> ScoreResult | None:
        """One sample of a trainer; None if it is lost or its caller goes."""
        fate = chance.random()
        if fate < 0.1:
            return None
        after_s = chance.uniform(0, 3) if fate < 0.8 else chance.uniform(8, 40)
        call = bench.ask(f"r{number}", after_s, group=f"g{group}", group_size=8)
        if fate > 0.92:
            try:
                async with asyncio.timeout(chance.uniform(0, 25)):
                    return await call
            except TimeoutError:
                return None
        result = await call
        assert now() - began <= after_s + 20.0, "a result after its deadline"
        return result

    async def cohort(bench: Bench, group: int) -> None:
        await asyncio.sleep(chance.uniform(0, 100))
        began = now()
        names = [*range(8), *(n for n in range(8) if chance.random() < 0.1)]
        results = await asyncio.gather(*(member(bench, group, n, began) for n in names))
        for number, result in zip(names, results, strict=True):
            if result is not None and result.score is not None:
                assert result.text == f"r{number}"
            elif result is not None:
                assert result.status is Status.TIMEOUT

    async def main() -> None:
        bench = Bench()
        async with asyncio.timeout(1000):
            await asyncio.gather(*(cohort(bench, group) for group in range(count)))
        await asyncio.sleep(100)
        assert bench.is_empty()
        assert all(len(set(cohort)) == len(cohort) <= 8 for cohort in bench.judged)
        assert sum(len(cohort) == 8 for cohort in bench.judged) > count / 50

    virtual_time.run(main)
