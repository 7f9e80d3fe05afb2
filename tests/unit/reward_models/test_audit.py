from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from reward_serve.engines.base import EngineError
from reward_serve.reward_models.audit import chosen, request_hash
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import ScoreRequest
from tests.unit.reward_models.test_judge import FakeEngine, judge, request, says

RIGHT, WRONG = says(p0=0.1, p1=0.9), says(p0=0.9, p1=0.1)
NONE = {"agreed": 0, "disagreed": 0, "failed": 0}


def broken(prompt: str) -> dict[str, float]:
    raise EngineError("gone")


def audited(engine: FakeEngine, rate: float = 1.0, **settings: Any) -> Judge:
    return judge(engine, audit_rate=rate, **settings)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("label", "counted"),
    [
        (RIGHT, "agreed"),
        (WRONG, "disagreed"),
        (broken, "failed"),
        (lambda prompt: {"0": math.nan, "1": math.nan}, "failed"),
    ],
)
async def test_a_rules_decision_is_audited_by_the_model_off_the_path(
    label: Any, counted: str
) -> None:
    engine = FakeEngine(label=label)
    model = audited(engine, rules_first=True)
    verdict = await model.score(request("#### 18"))
    assert (verdict.score, verdict.source) == (1.0, "rule")
    assert engine.prompts == []
    await settle()
    assert len(engine.prompts) == 1
    assert model.describe()["audit"] == {**NONE, counted: 1}


async def test_a_models_decision_is_audited_by_the_rules() -> None:
    engine = FakeEngine(label=RIGHT)
    model = audited(engine, rules_first=False)
    verdict = await model.score(request("#### 18"))
    assert (verdict.score, verdict.source) == (1.0, "judge")
    await settle()
    assert len(engine.prompts) == 1
    assert model.describe()["audit"] == {**NONE, "agreed": 1}


@pytest.mark.parametrize("rules_first", [True, False])
async def test_where_no_rule_decides_there_is_nothing_to_compare(rules_first: bool) -> None:
    model = audited(FakeEngine(), rules_first=rules_first)
    await model.score(request("Maybe it is 18, or not"))
    await settle()
    assert model.describe()["audit"] == NONE


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
    assert 0.08 < sum(chosen(one, 0.1) for one in numbers) / 5000 < 0.12
    assert not any(chosen(one, 0.0) for one in numbers)
    assert all(chosen(one, 1.0) for one in numbers)
