import asyncio
import math
from typing import Any

import pytest

from reward_serve.engines.base import EngineError, OverloadedError, RefusedError, UnusableReplyError
from reward_serve.reward_models.base import (
    DeadlinePassedError,
    InvalidRequestError,
    chosen,
    failure_of,
    request_hash,
)
from reward_serve.schema import ScoreRequest, Status, failure
from tests.unit.reward_models.test_judge import FakeEngine, judge, request, says


@pytest.mark.parametrize(
    ("error", "status", "reason", "details"),
    [
        (InvalidRequestError("field: why"), Status.INVALID, "field: why", None),
        (EngineError("gone"), Status.ERROR, "gone", None),
        (DeadlinePassedError("late"), Status.TIMEOUT, "late", None),
        (RefusedError("never"), Status.INVALID, "never", None),
        (UnusableReplyError("odd"), Status.UNPARSEABLE, "odd", None),
        (KeyError("x"), Status.ERROR, "KeyError: 'x'", None),
        (
            OverloadedError("full", 3),
            Status.OVERLOADED,
            "full; retry after 3 s",
            {"retry_after_s": 3},
        ),
    ],
)
def test_errors_have_statuses(error: Exception, status: Status, reason: str, details: Any) -> None:
    assert failure_of(error, "judge") == failure(status, reason, details=details)


RIGHT, WRONG = says(p0=0.1, p1=0.9), says(p0=0.9, p1=0.1)


def broken(prompt: str) -> dict[str, float]:
    raise EngineError("gone")


@pytest.mark.parametrize(
    ("rules_first", "response", "label", "counted"),
    [
        (True, "#### 18", RIGHT, "agreed"),
        (True, "#### 18", WRONG, "disagreed"),
        (True, "#### 18", broken, "failed"),
        (True, "#### 18", lambda prompt: {"0": math.nan, "1": math.nan}, "failed"),
        (False, "#### 18", RIGHT, "agreed"),
        (True, "Maybe it is 18, or not", RIGHT, None),
        (False, "Maybe it is 18, or not", RIGHT, None),
    ],
)
async def test_rules_and_model_are_compared_off_the_path_where_a_rule_decides(
    rules_first: bool, response: str, label: Any, counted: str | None
) -> None:
    engine = FakeEngine(label=label)
    model = judge(engine, audit_rate=1.0, rules_first=rules_first)
    audits: list[tuple[float, float]] = []
    model.report_audits(lambda _request, _source, *scores: audits.append(scores))
    verdict = await model.score(request(response))
    by_rule = rules_first and counted is not None
    assert (verdict.score, verdict.source) == (1.0, "rule" if by_rule else "judge")
    assert bool(engine.prompts) is not by_rule
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(engine.prompts) == 1
    agreed = {"agreed": [(1.0, 1.0)], "disagreed": [(1.0, 0.0)]}.get(counted or "", [])
    assert [(rules, round(by_model)) for rules, by_model in audits] == agreed
    none = {"agreed": 0, "disagreed": 0, "failed": 0}
    assert model.describe()["audit"] == (none | {counted: 1} if counted else none)


def test_equal_questions_share_a_hash_as_data_and_as_requests() -> None:
    asked = {"response": "18", "reference": ["18", "19"], "id": "a", "timeout_s": 3.0}
    assert request_hash(asked) == request_hash(ScoreRequest.model_validate(asked))
    assert request_hash(asked) == request_hash({**asked, "id": "b"})
    for other in ({"response": "19"}, {"reference": "18"}, {"question": "?"}, {"template": "x"}):
        assert request_hash(asked) != request_hash({**asked, **other})


@pytest.mark.parametrize("odd", [None, "text", {"response": "\ud800"}, {"response": [10**5000]}])
def test_any_request_has_a_hash(odd: object) -> None:
    assert len(request_hash(odd)) == 16


def test_a_sample_has_its_share() -> None:
    numbers = [request_hash({"response": str(n)}) for n in range(5000)]
    assert 0.08 < sum(chosen(number, 0.1) for number in numbers) / 5000 < 0.12
    assert not any(chosen(number, 0.0) for number in numbers)
    assert all(chosen(number, 1.0) for number in numbers)
