from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

import pytest

from reward_serve.engines.base import EngineError
from reward_serve.reward_models.base import Trace
from reward_serve.reward_models.judge import Judge
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


async def test_a_rate_of_zero_asks_the_model_nothing() -> None:
    engine = FakeEngine()
    await audited(engine, rate=0.0, rules_first=True).score(request("#### 18"))
    await settle()
    assert engine.prompts == []


async def test_no_more_than_a_few_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = asyncio.Event()
    engine = FakeEngine(label=RIGHT)
    answer = engine.label_logprobs

    async def late(*asked: Any) -> Any:
        await over.wait()
        return await answer(*asked)

    monkeypatch.setattr(engine, "label_logprobs", late)
    model = audited(engine, rules_first=True, inline_templates=True)
    for number in range(100):
        await model.score(request("#### 18", id=str(number)))
    over.set()
    await settle()
    assert model.describe()["audit"] == {**NONE, "agreed": 4}
    await model.score(request("#### 18"))
    await settle()
    assert model.describe()["audit"]["agreed"] == 5


async def test_disagreements_are_logged_and_not_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    model = audited(FakeEngine(label=WRONG), rules_first=True)
    for _ in range(100):
        await model.score(request("#### 18"))
        await settle()
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 7
    assert logged[0].startswith("rules and model disagree on 1 of 1 requests so far")


async def test_an_explanation_is_not_audited() -> None:
    engine = FakeEngine(label=RIGHT)
    model = audited(engine, rules_first=True)
    await model.score(request("#### 18"), Trace())
    await settle()
    assert len(engine.prompts) == 1
    assert model.describe()["audit"] == NONE
