from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from reward_serve.reward_models.audit import Audit
from reward_serve.reward_models.base import Verdict
from reward_serve.schema import ScoreRequest, Status
from reward_serve.verifiers import verify_any

ASKED = ScoreRequest(response="#### 18", reference="18")
RULE = verify_any("#### 18", ["18"])


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("verdict", "counted"),
    [
        (Verdict(score=1.0), "agreed"),
        (Verdict(score=0.9), "agreed"),
        (Verdict(score=0.0), "disagreed"),
        (Verdict(status=Status.UNPARSEABLE), "failed"),
    ],
)
async def test_the_model_is_asked_too_and_compared(verdict: Verdict, counted: str) -> None:
    audit = Audit(1.0)

    async def ask() -> Verdict:
        return verdict

    assert audit.wants(ASKED)
    audit.ask_model(ASKED, RULE, ask)
    await settle()
    assert {name for name, count in audit.counts.items() if count} == {counted}


async def test_a_model_that_fails_costs_no_one_anything() -> None:
    audit = Audit(1.0)

    async def ask() -> Verdict:
        raise RuntimeError("the engine is gone")

    audit.ask_model(ASKED, RULE, ask)
    await settle()
    assert audit.counts == {"agreed": 0, "disagreed": 0, "failed": 1}


async def test_no_more_than_a_few_are_under_way() -> None:
    audit = Audit(1.0)
    over = asyncio.Event()

    async def ask() -> Verdict:
        await over.wait()
        return Verdict(score=1.0)

    for _ in range(100):
        if audit.wants(ASKED):
            audit.ask_model(ASKED, RULE, ask)
    over.set()
    await settle()
    assert audit.counts["agreed"] == 4
    assert audit.wants(ASKED)


def test_what_no_rule_decides_is_not_compared() -> None:
    audit = Audit(1.0)
    audit.compare(ASKED, verify_any("Maybe 18, maybe 19.", ["18"]), Verdict(score=1.0))
    assert not any(audit.counts.values())


def test_a_rate_of_none_wants_nothing() -> None:
    assert not Audit(0.0).wants(ASKED)


def test_disagreements_are_logged_and_not_each(caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(1.0)
    caplog.set_level(logging.WARNING)
    for _ in range(100):
        audit.compare(ASKED, RULE, Verdict(score=0.0))
    told: list[Any] = [record.getMessage() for record in caplog.records]
    assert len(told) == 7
    assert told[0].startswith("rules and model disagree on 1 of 1 requests so far")
