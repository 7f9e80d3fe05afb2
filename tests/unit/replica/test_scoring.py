import asyncio
import json
import math
from contextlib import aclosing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from reward_serve.config.models import RuleModel
from reward_serve.engines.base import EngineError
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import Times
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import InvalidRequestError, RewardModel, Trace
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import MAX_ITEM_BYTES, ScoreRequest, ScoreResult, Status, Usage, failure
from tests.rows import rows
from tests.virtual_time import in_virtual_time, settle

KEYS = tuple(name for name in ScoreResult.model_fields if name not in ("components", "critique"))
RAISES = {
    "invalid": InvalidRequestError("reference: send one"),
    "engine": EngineError("the engine is gone"),
    "bug": KeyError("answer"),
    "slow": TimeoutError("the engine's own"),
    "abandon": asyncio.CancelledError("not the caller's"),
}


@dataclass
class FakeRewardModel(RewardModel):
    """Does what the response says; keeps what it was asked and what was cancelled."""

    asked: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    left_s: list[float] = field(default_factory=list)

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        response = request.judged
        self.asked.append(response)
        self.left_s.append(request.timeout_s)
        if response in RAISES:
            raise RAISES[response]
        match response.split():
            case ["sleep", seconds, *_]:
                try:
                    await asyncio.sleep(float(seconds))
                except asyncio.CancelledError:
                    self.cancelled.append(response)
                    raise
            case ["nan"]:
                return ScoreResult(status=Status.OK, score=math.nan)
            case ["empty"]:
                return ScoreResult(status=Status.OK)
            case ["unparseable"]:
                return failure(Status.UNPARSEABLE, "no verdict", text="hm")
        usage = Usage(prompt_tokens=len(response))
        return ScoreResult(status=Status.OK, score=1.0, source="judge", usage=usage)

    def describe(self) -> dict[str, Any]:
        return {}


class Bench:
    """A scorer over a fake reward model, and its admission."""

    def __init__(self, concurrent: int = 8, queued: int = 8, most_bytes: int = MAX_ITEM_BYTES):
        self.model = FakeRewardModel()
        self.admission = Admission(concurrent, queued)
        self.scorer = Scorer("judge", self.model, self.admission, most_bytes)

    async def score(self, response: str, **fields: Any) -> ScoreResult:
        result = await self.scorer.score({"response": response, **fields})
        assert tuple(result) == KEYS
        json.dumps(result, allow_nan=False)
        return ScoreResult.model_validate(result)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def asks(*responses: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"response": response, "id": response, **fields} for response in responses]


@pytest.mark.parametrize(
    ("response", "status", "reason"),
    [
        ("18", Status.OK, ""),
        ("invalid", Status.INVALID, "reference: send one"),
        ("engine", Status.ERROR, "the engine is gone"),
        ("bug", Status.ERROR, "KeyError: 'answer'"),
        ("slow", Status.ERROR, "the engine's own"),
        ("abandon", Status.ERROR, "the engine cancelled the request"),
        ("unparseable", Status.UNPARSEABLE, "no verdict"),
        ("nan", Status.ERROR, "ValidationError"),
        ("empty", Status.ERROR, "ValidationError"),
    ],
)
async def test_a_result_is_a_verdict_or_a_status_without_a_score(
    bench: Bench, response: str, status: Status, reason: str
) -> None:
    result = await bench.score(response, id="a", metadata={"step": 3}, model="judge")
    assert (result.status, result.score) == (status, 1.0 if status is Status.OK else None)
    assert reason in (result.reason or "")
    assert (result.id, result.metadata, result.model) == ("a", {"step": 3}, "judge")
    assert bench.admission.items == 0


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        *rows(__file__, "bad_requests"),
        ({"response": 10**5000}, ["response: "]),
        ({"response": "", "timeout_s": math.nan}, ["timeout_s: "]),
    ],
)
async def test_a_bad_request_is_invalid_names_the_field_and_never_reaches_the_model(
    request_: object, parts: list[str]
) -> None:
    bench = Bench(most_bytes=20)
    result = ScoreResult.model_validate(await bench.scorer.score(request_))
    assert result.status is Status.INVALID
    assert [part for part in parts if part not in (result.reason or "")] == []
    assert bench.model.asked == []
    assert (await bench.score("x", question="y" * 19)).status is Status.OK


@in_virtual_time
async def test_a_deadline_that_passed_is_a_timeout_and_cancels_the_work() -> None:
    bench = Bench()
    results = await bench.scorer.score_batch(
        [*asks("sleep 9", timeout_s=2), *asks("sleep 3", timeout_s=5)]
    )
    assert [result["status"] for result in results] == ["timeout", "ok"]
    assert results[0]["score"] is None and "2 s" in results[0]["reason"]
    assert bench.model.cancelled == ["sleep 9"]
    assert bench.admission.items == 0


@in_virtual_time
async def test_a_deadline_counts_the_wait_for_a_slot() -> None:
    bench = Bench(concurrent=1)
    _, second, third = await bench.scorer.score_batch(
        asks("sleep 1", "sleep 2", "sleep 3", timeout_s=2.5)
    )
    assert bench.model.left_s == [2.5, 1.5]
    assert (second["status"], third["status"]) == ("timeout", "timeout")


@in_virtual_time
async def test_a_batch_beyond_the_queue_sheds_only_what_is_beyond_and_at_once() -> None:
    bench = Bench(concurrent=2, queued=3)
    batch = asyncio.ensure_future(bench.scorer.score_batch(asks(*["sleep 1"] * 8)))
    await settle()
    assert len(bench.model.asked) == 2
    result = await bench.score("18", id="a", metadata={"step": 3})
    assert (result.status, result.score) == (Status.OVERLOADED, None)
    assert (result.id, result.metadata) == ("a", {"step": 3})
    assert result.details == {"retry_after_s": 1.0}
    assert not batch.done()
    assert [result["status"] for result in await batch] == ["ok"] * 5 + ["overloaded"] * 3


@in_virtual_time
async def test_a_failure_is_its_items_own_in_a_batch() -> None:
    responses = ["sleep 5", "bug", "nan", "18", "abandon", "sleep 1"]
    requests: list[Any] = [*asks(*responses), None, {"id": "no response", "metadata": {"n": 1}}]
    expected = ["ok", "error", "error", "ok", "error", "ok", "invalid", "invalid"]

    results = await Bench().scorer.score_batch(requests)
    assert [result["id"] for result in results] == [*responses, None, "no response"]
    assert [result["status"] for result in results] == expected
    assert results[-1]["metadata"] == {"n": 1}
    assert {tuple(result) for result in results} == {KEYS}


@in_virtual_time
async def test_a_stream_has_what_is_final_and_a_reader_who_leaves_cancels_the_rest() -> None:
    bench = Bench()
    asked = asks("sleep 1", "18", "sleep 0.01", "sleep 1.001", "bug", "sleep 60")
    stream = bench.scorer.score_stream(asked)
    parts: list[Any] = []
    began = asyncio.get_running_loop().time()
    async with aclosing(stream) as lists:
        while len(parts) < 2:
            results = [(index, result["status"]) for index, result in await anext(lists)]
            parts.append((sorted(results), round(asyncio.get_running_loop().time() - began, 2)))
    assert parts == [([(1, "ok"), (2, "ok"), (4, "error")], 0.02), ([(0, "ok"), (3, "ok")], 1.0)]
    await settle()
    assert bench.model.cancelled == ["sleep 60"]
    assert bench.admission.items == 0

    (instant,) = [part async for part in bench.scorer.score_stream(asks(*["18"] * 8))]
    assert [index for index, _ in sorted(instant)] == list(range(8))


@pytest.mark.parametrize(("parts", "before"), [("one batch", 9), ("three batches", 24)])
async def test_the_parts_of_a_batch_take_turns_as_one(parts: str, before: int) -> None:
    """How many items are admitted before a single that comes after three parts of eight."""
    bench = Bench(concurrent=1, queued=64)
    names = ["b"] * 3 if parts == "one batch" else [None] * 3
    asked = asks(*["sleep 0"] * 8)
    tasks = [asyncio.ensure_future(bench.scorer.score_batch(asked, (name, None))) for name in names]
    await asyncio.sleep(0)
    tasks.append(asyncio.ensure_future(bench.scorer.score_batch(asks("19"))))
    await asyncio.gather(*tasks)
    assert bench.model.asked.index("19") == before


async def test_a_caller_who_leaves_cancels_the_work_and_frees_the_slots() -> None:
    bench = Bench(concurrent=2)
    call = asyncio.create_task(bench.scorer.score_batch(asks("sleep 60", "sleep 61", "18")))
    await settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.model.asked == sorted(bench.model.cancelled) == ["sleep 60", "sleep 61"]
    assert bench.admission.items == 0
    assert (await bench.score("18")).status is Status.OK


@in_virtual_time
async def test_every_end_is_observed_once_with_its_times() -> None:
    seen: list[tuple[str | None, str, Times]] = []
    observer: Any = SimpleNamespace(
        observe=lambda request, result, times: seen.append(
            (request and request.response, result["status"], times)
        )
    )
    scorer = Scorer("m", FakeRewardModel(), Admission(1, 1), observers=[observer])
    results = await scorer.score_batch(asks("sleep 1", "sleep 2"))
    assert [result["latency_ms"] for result in results] == [1000, 3000]
    await scorer.score(None)
    await scorer.score({"response": "bug"})
    leaving = asyncio.ensure_future(scorer.score({"response": "sleep 60"}))
    await asyncio.sleep(1)
    leaving.cancel()
    await asyncio.wait([leaving])

    assert seen == [
        ("sleep 1", "ok", Times(1000, placed=1000, ended=1001)),
        ("sleep 2", "ok", Times(1000, placed=1001, ended=1003)),
        (None, "invalid", Times(1003, ended=1003)),
        ("bug", "error", Times(1003, placed=1003, ended=1003)),
        ("sleep 60", "cancelled", Times(1003, placed=1003, ended=1004)),
    ]


async def test_a_short_item_passes_a_batch_of_long_ones(bench: Bench) -> None:
    long = [{"response": str(index) + " word" * 8_000} for index in range(7)]
    batch = asyncio.create_task(bench.scorer.score_batch(long))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # all of the batch are admitted
    await bench.score("18")
    assert bench.model.asked.index("18") <= 2  # 7 where each holds the event loop in its turn
    assert [result["status"] for result in await batch] == ["ok"] * 7


@pytest.mark.parametrize("rubric", ["style", [{"name": "brief", "text": "It is brief."}]])
async def test_a_rubric_is_refused_by_a_model_that_reads_none(rubric: Any) -> None:
    model = RuleRewardModel(RuleModel(name="gsm8k", kind="rule"))
    model.reads_rubric = False
    scorer = Scorer("gsm8k", model, Admission(8, 8))
    (request,) = asks("#### 18", reference="18")
    refused = await scorer.score({**request, "rubric": rubric})
    assert (refused["status"], refused["score"]) == ("invalid", None)
    assert "rubric: model 'gsm8k' has kind rule, which reads no rubric; ask" in refused["reason"]
    assert (await scorer.score({**request, "rubric": None}))["score"] == 1.0
