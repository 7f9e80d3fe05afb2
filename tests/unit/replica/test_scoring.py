from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.engines.base import EngineError
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import FailureLog, Times
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import InvalidRequestError, RewardModel, Trace
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import (
    MAX_ITEM_BYTES,
    ScoreRequest,
    ScoreResult,
    Status,
    Usage,
    failure,
)

KEYS = tuple(name for name in ScoreResult.model_fields if name != "components")


@dataclass
class FakeRewardModel(RewardModel):
    """Does what the response says; counts what it was asked and what was cancelled."""

    asked: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    left_s: list[float] = field(default_factory=list)
    most_at_work: int = 0
    _at_work: int = 0

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        self.asked.append(request.response)
        self.left_s.append(request.timeout_s)
        self._at_work += 1
        self.most_at_work = max(self.most_at_work, self._at_work)
        try:
            return await self._verdict(request.response)
        except asyncio.CancelledError:
            self.cancelled.append(request.response)
            raise
        finally:
            self._at_work -= 1

    async def _verdict(self, response: str) -> ScoreResult:
        match response.split():
            case ["sleep", seconds, *_]:
                await asyncio.sleep(float(seconds))
            case ["hang", *_]:
                await asyncio.Event().wait()
            case ["invalid", *_]:
                raise InvalidRequestError("reference: send one")
            case ["engine", *_]:
                raise EngineError("the engine is gone")
            case ["bug", *_]:
                raise KeyError("answer")
            case ["slow", *_]:
                raise TimeoutError("the engine's own")
            case ["nan", *_]:
                return ScoreResult(status=Status.OK, score=math.nan)
            case ["empty", *_]:
                return ScoreResult(status=Status.OK)
            case ["abandon", *_]:
                raise asyncio.CancelledError("not the caller's")
            case ["unparseable", *_]:
                return failure(Status.UNPARSEABLE, "no verdict", text="hm")
        usage = Usage(prompt_tokens=len(response))
        return ScoreResult(status=Status.OK, score=1.0, source="judge", usage=usage)

    def describe(self) -> dict[str, Any]:
        return {}


class Bench:
    """A scorer over a fake reward model, and its admission."""

    def __init__(
        self,
        concurrent: int = 8,
        queued: int = 8,
        max_batch_items: int = 8,
        max_item_bytes: int = MAX_ITEM_BYTES,
    ) -> None:
        self.model = FakeRewardModel()
        self.admission = Admission(concurrent, queued)
        self.scorer = Scorer("judge", self.model, self.admission, max_batch_items, max_item_bytes)

    async def score(self, response: str, **fields: Any) -> ScoreResult:
        result = await self.scorer.score({"response": response, **fields})
        assert tuple(result) == KEYS
        json.dumps(result, allow_nan=False)
        return ScoreResult.model_validate(result)


class Seen:
    """An observer that keeps what it observes."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, Times]] = []
        self.left = 0

    def observe(self, request: object, result: Mapping[str, Any], times: Times) -> None:
        self.ended.append((result["status"], times))

    def cancelled(self, request: object, times: Times) -> None:
        self.left += 1

    def flush(self) -> None: ...


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def asks(*responses: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"response": response, "id": response, **fields} for response in responses]


async def test_a_verdict_becomes_a_result(bench: Bench) -> None:
    result = await bench.score("18", id="a", metadata={"step": 3}, model="judge")
    assert (result.score, result.status, result.source) == (1.0, Status.OK, "judge")
    assert (result.id, result.metadata, result.model) == ("a", {"step": 3}, "judge")
    assert result.usage.prompt_tokens == 2
    assert result.reason is None


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"response": "x" * 21}, "response: has 21 of the item's 21 bytes"),
        ({"reference": ["x" * 7] * 3}, "reference: has 21 of the item's 22 bytes"),
        ({"question": "x" * 30}, "question: has 30 of the item's 31 bytes"),
        ({"template": "x" * 20}, "template: has 20 of the item's 21 bytes"),
        (
            {"messages": [{"role": "user", "content": "x" * 20}] * 2},
            "messages: has 40 of the item's 41 bytes",
        ),
        (
            {"question": "x" * 12, "reference": "y" * 8},
            "question: has 12 of the item's 21 bytes",
        ),
    ],
)
async def test_an_item_too_long_is_invalid_by_its_longest_field(
    fields: dict[str, Any], named: str
) -> None:
    bench = Bench(max_item_bytes=20)
    result = await bench.score(**{"response": "x", "id": "a", **fields})
    assert (result.status, result.id) == (Status.INVALID, "a")
    assert named in (result.reason or "")
    assert "the limit is max_item_bytes: 20, so send less" in (result.reason or "")
    assert bench.model.asked == []
    assert (await bench.score("x", question="y" * 19)).status is Status.OK


async def test_a_rule_scores_through_it() -> None:
    rule = RuleRewardModel(RuleModel(name="rule", kind="rule"))
    scorer = Scorer("rule", rule, Admission(2, 2), 8)
    requests = [{"response": f"#### {n}", "reference": "18"} for n in (18, 17)]
    assert [r["score"] for r in await scorer.score_batch(requests)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("response", "status", "reason"),
    [
        pytest.param("invalid", Status.INVALID, "reference: send one", id="its own refusal"),
        pytest.param("engine", Status.ERROR, "the engine is gone", id="engine"),
        pytest.param("bug", Status.ERROR, "KeyError: 'answer'", id="unexpected"),
        pytest.param("unparseable", Status.UNPARSEABLE, "no verdict", id="no verdict"),
    ],
)
async def test_a_failure_is_a_status_without_a_score(
    bench: Bench, response: str, status: Status, reason: str
) -> None:
    result = await bench.score(response, id="a", metadata={"step": 3})
    assert (result.status, result.score, result.reason) == (status, None, reason)
    assert (result.id, result.metadata, result.model) == ("a", {"step": 3}, "judge")
    assert bench.admission.items == 0


@pytest.mark.parametrize(
    "response",
    [
        pytest.param("nan", id="score is not a number"),
        pytest.param("empty", id="ok without a score"),
    ],
)
async def test_a_verdict_that_is_no_result_is_an_error(bench: Bench, response: str) -> None:
    assert (await bench.score(response)).status is Status.ERROR


async def test_a_timeout_of_the_engines_own_is_an_error_not_the_deadline(bench: Bench) -> None:
    result = await bench.score("slow", timeout_s=60)
    assert result.status is Status.ERROR


async def test_a_call_that_its_engine_cancelled_is_an_error_of_that_item(bench: Bench) -> None:
    results = await bench.scorer.score_batch(asks("abandon", "18"))
    assert [result["status"] for result in results] == ["error", "ok"]


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        pytest.param({"response": 18}, ["response: ", "found 18"], id="wrong type"),
        pytest.param({}, ["response: "], id="missing"),
        pytest.param({"response": "", "respones": 1}, ["respones: "], id="unknown field"),
        pytest.param({"response": "", "timeout_s": math.nan}, ["timeout_s: "], id="nan"),
        pytest.param(None, ["request: ", "found None"], id="null"),
        pytest.param("18", ["request: "], id="text"),
        pytest.param(
            {"response": "", "model": "other"}, ["model: ", "'other'", "'judge'"], id="model"
        ),
    ],
)
async def test_a_bad_request_is_invalid_and_never_reaches_the_model(
    bench: Bench, request_: object, parts: list[str]
) -> None:
    result = ScoreResult.model_validate(await bench.scorer.score(request_))
    assert result.status is Status.INVALID
    assert result.reason is not None
    assert [part for part in parts if part not in result.reason] == []
    assert bench.model.asked == []


async def test_a_bad_request_has_its_id_and_metadata_echoed(bench: Bench) -> None:
    result = await bench.scorer.score({"id": "a", "metadata": {"step": 3}, "response": None})
    assert (result["status"], result["id"], result["metadata"]) == ("invalid", "a", {"step": 3})


async def test_a_value_that_cannot_be_shown_is_invalid(bench: Bench) -> None:
    assert (await bench.scorer.score({"response": 10**5000}))["status"] == "invalid"


async def test_an_unexpected_failure_is_logged_once_with_its_traceback(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="reward_serve"):
        await bench.score("bug", id="a")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
    assert "judge" in record.getMessage()
    assert "'a'" in record.getMessage()


@pytest.mark.parametrize("response", ["invalid", "engine", "unparseable", "18"])
async def test_an_expected_outcome_is_not_logged(
    bench: Bench, response: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="reward_serve"):
        await bench.score(response)
    assert caplog.records == []


async def test_a_deadline_that_passed_is_a_timeout_and_cancels_the_work(bench: Bench) -> None:
    result = await bench.score("hang", timeout_s=0.05, id="a")
    assert (result.status, result.score, result.id) == (Status.TIMEOUT, None, "a")
    assert result.reason is not None
    assert "0.05 s" in result.reason
    assert bench.model.cancelled == ["hang"]
    assert bench.admission.items == 0
    assert result.latency_ms >= 50


async def test_a_deadline_counts_the_wait_for_a_slot() -> None:
    bench = Bench(concurrent=1)
    first = asyncio.create_task(bench.score("hang"))
    await settle()
    result = await bench.score("18", timeout_s=0.05)
    assert result.status is Status.TIMEOUT
    assert bench.model.asked == ["hang"]
    assert bench.admission.items == 1
    first.cancel()


async def test_each_item_of_a_batch_keeps_its_own_deadline(bench: Bench) -> None:
    requests = [*asks("hang", timeout_s=0.05), *asks("sleep 0.1", timeout_s=5)]
    results = await bench.scorer.score_batch(requests)
    assert [result["status"] for result in results] == ["timeout", "ok"]


async def test_a_full_queue_is_overloaded_at_once() -> None:
    bench = Bench(concurrent=1, queued=1)
    held = [asyncio.create_task(bench.score("hang")) for _ in range(2)]
    await settle()
    async with asyncio.timeout(30):
        result = await bench.score("18", id="a", metadata={"step": 3})
    assert (result.status, result.score) == (Status.OVERLOADED, None)
    assert (result.id, result.metadata) == ("a", {"step": 3})
    assert result.reason is not None
    assert "retry" in result.reason
    assert result.details == {"retry_after_s": 1.0}
    assert bench.model.asked == ["hang"]
    for task in held:
        task.cancel()


async def test_a_batch_beyond_the_queue_sheds_only_what_is_beyond() -> None:
    bench = Bench(concurrent=2, queued=3, max_batch_items=8)
    results = await bench.scorer.score_batch(asks(*(f"sleep 0.01 {i}" for i in range(8))))
    assert [result["status"] for result in results] == ["ok"] * 5 + ["overloaded"] * 3
    assert bench.model.most_at_work == 2


async def test_a_batch_keeps_its_order_and_a_failure_is_its_items_own(bench: Bench) -> None:
    responses = ["sleep 0.05", "bug", "18", "invalid", "engine", "sleep 0.01"]
    requests: list[Any] = [*asks(*responses), None, {"id": "no response"}]
    results = await bench.scorer.score_batch(requests)
    assert [result["id"] for result in results] == [*responses, None, "no response"]
    assert [result["status"] for result in results] == [
        "ok",
        "error",
        "ok",
        "invalid",
        "error",
        "ok",
        "invalid",
        "invalid",
    ]
    assert {tuple(result) for result in results} == {KEYS}


async def test_an_item_that_cannot_be_logged_does_not_fail_the_others() -> None:
    rule = RuleRewardModel(RuleModel(name="rule", kind="rule"))
    log = FailureLog("rule")
    scorer = Scorer("rule", rule, Admission(8, 8), 8, observers=[log])
    batch = [{"response": 10**5000}, {"response": "#### 18", "reference": "18"}]

    assert [r["status"] for r in await scorer.score_batch(batch)] == ["invalid", "ok"]


async def test_the_items_of_a_batch_are_worked_on_together(bench: Bench) -> None:
    await bench.scorer.score_batch(asks(*(f"sleep 0.01 {i}" for i in range(8))))
    assert bench.model.most_at_work == 8


async def test_a_tuple_is_a_batch_too(bench: Bench) -> None:
    results = await bench.scorer.score_batch(tuple(asks("18", "19")))
    assert [result["id"] for result in results] == ["18", "19"]


async def test_an_empty_batch_has_no_results(bench: Bench) -> None:
    assert await bench.scorer.score_batch([]) == []


async def test_a_batch_over_the_limit_is_invalid_item_by_item(bench: Bench) -> None:
    requests = asks(*map(str, range(9)), metadata={"step": 3})
    results = await bench.scorer.score_batch(requests)
    assert [result["id"] for result in results] == list(map(str, range(9)))
    assert {result["status"] for result in results} == {"invalid"}
    assert {result["metadata"]["step"] for result in results} == {3}
    assert {tuple(result) for result in results} == {KEYS}
    assert all("9 items; the limit is 8, so split the batch" in r["reason"] for r in results)
    assert bench.model.asked == []


async def test_a_batch_at_the_limit_is_scored(bench: Bench) -> None:
    results = await bench.scorer.score_batch(asks(*map(str, range(8))))
    assert {result["status"] for result in results} == {"ok"}


@pytest.mark.parametrize("requests", [None, "18", {"response": "18"}, 3])
async def test_a_batch_that_is_no_list_is_the_callers_mistake(
    bench: Bench, requests: object
) -> None:
    with pytest.raises(TypeError, match=f"must be a list.*found {type(requests).__name__}"):
        await bench.scorer.score_batch(requests)


@pytest.mark.parametrize(("parts", "before"), [("one batch", 9), ("three batches", 24)])
async def test_the_parts_of_a_batch_take_turns_as_one(parts: str, before: int) -> None:
    """How many items are admitted before a single that comes after three parts of eight."""
    order: list[str] = []

    class Ordered(FakeRewardModel):
        async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
            order.append(request.response)
            await asyncio.sleep(0)
            return await super().score(request)

    scorer = Scorer("judge", Ordered(), Admission(1, 64), 8)
    names = ["b"] * 3 if parts == "one batch" else [None] * 3
    tasks = [asyncio.ensure_future(scorer.score_batch(asks(*["18"] * 8), name)) for name in names]
    await asyncio.sleep(0)
    tasks.append(asyncio.ensure_future(scorer.score_batch(asks("19"))))
    await asyncio.gather(*tasks)
    assert order.index("19") == before


async def test_a_caller_who_leaves_cancels_the_work_and_frees_the_slot() -> None:
    bench = Bench(concurrent=1)
    call = asyncio.create_task(bench.score("hang"))
    await settle()
    assert bench.model.asked == ["hang"]
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.model.cancelled == ["hang"]
    assert bench.admission.items == 0
    assert (await bench.score("18", timeout_s=0.5)).status is Status.OK


async def test_a_caller_who_leaves_a_batch_cancels_all_of_it() -> None:
    bench = Bench(concurrent=2)
    call = asyncio.create_task(bench.scorer.score_batch(asks("hang 1", "hang 2", "18")))
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await settle()
    assert bench.model.asked == sorted(bench.model.cancelled) == ["hang 1", "hang 2"]
    assert bench.admission.items == 0


async def test_latency_is_the_time_from_arrival_to_verdict_in_milliseconds() -> None:
    seen = Seen()
    ticks = iter([10.0, 10.0625, 10.25])
    clock = lambda: next(ticks)  # noqa: E731
    scorer = Scorer("judge", FakeRewardModel(), Admission(1, 1), 1, observers=[seen], clock=clock)
    assert (await scorer.score({"response": "18"}))["latency_ms"] == 250
    assert seen.ended == [("ok", Times(10.0, placed=10.0625, ended=10.25))]


async def test_every_end_is_observed_once() -> None:
    seen = Seen()
    scorer = Scorer("judge", FakeRewardModel(), Admission(8, 0), 8, observers=[seen])
    await scorer.score_batch([*asks("18", "bug", "engine", "unparseable"), None])
    await scorer.score({"response": "hang", "timeout_s": 0.01})
    leaving = asyncio.create_task(scorer.score({"response": "hang"}))
    await settle()
    leaving.cancel()
    await asyncio.wait([leaving])

    statuses = [status for status, _ in seen.ended]
    assert sorted(statuses) == ["error", "error", "invalid", "ok", "timeout", "unparseable"]
    assert {s: times.model is None for s, times in seen.ended}["invalid"] is True
    assert seen.left == 1


async def test_a_model_receives_the_rest_of_the_deadline() -> None:
    bench = Bench(concurrent=1)
    await asyncio.gather(bench.score("sleep 0.2", timeout_s=5), bench.score("x", timeout_s=5))
    first, second = bench.model.left_s
    assert 4.9 < first <= 5
    assert 4.5 < second < 4.81


async def test_a_short_item_passes_a_batch_of_long_ones(bench: Bench) -> None:
    long = [{"response": str(index) + " word" * 8_000} for index in range(7)]
    batch = asyncio.create_task(bench.scorer.score_batch(long))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # all of the batch are admitted
    await bench.score("18")
    assert bench.model.asked.index("18") <= 2  # 7 where each holds the event loop in its turn
    assert [result["status"] for result in await batch] == ["ok"] * 7


async def test_a_cancelled_long_item_does_not_delay_others(bench: Bench) -> None:
    first, second, third = ("a" * 40_000, "b" * 40_000, "c" * 40_000)
    _, cancelled, following = (
        asyncio.create_task(bench.score(text)) for text in (first, second, third)
    )
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await following).status == Status.OK
    assert bench.model.asked == [first, third]


@pytest.mark.parametrize("rubric", ["style", [{"name": "brief", "text": "It is brief."}]])
@pytest.mark.parametrize("explains", [False, True])
async def test_a_rubric_is_refused_by_a_model_that_reads_none(rubric: Any, explains: bool) -> None:
    model = RuleRewardModel(RuleModel(name="gsm8k", kind="rule"))
    scorer = Scorer("gsm8k", model, Admission(8, 8), max_batch_items=8)
    request = {"response": "#### 18", "reference": "18", "rubric": rubric}
    assert (await scorer.score(request))["score"] == 1.0

    model.reads_rubric = False
    result = (await scorer.explain(request))["result"] if explains else await scorer.score(request)
    assert (result["status"], result["score"]) == ("invalid", None)
    assert result["reason"] == (
        "rubric: model 'gsm8k' has kind rule, which reads no rubric; ask a model of kind rubric or "
        "a composite of one, or leave it out"
    )
    assert (await scorer.score({**request, "rubric": None}))["score"] == 1.0
