from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reward_serve.config.models import CascadeModel
from reward_serve.explanation import Explanation
from reward_serve.reward_models.base import Trace
from reward_serve.reward_models.composite import Ask, Cascade
from reward_serve.schema import ScoreRequest, ScoreResult, Status, Usage, failure
from tests import virtual_time

REQUEST = ScoreRequest(response="18", reference="18", id="a", model="cascade", timeout_s=10)


def verdict(right: float, source: Any = "judge", **fields: Any) -> ScoreResult:
    """A binary judge's result, with its probability of right."""
    return ScoreResult(
        status=Status.OK,
        score=float(right >= 0.5),
        source=source,
        label="1" if right >= 0.5 else "0",
        probabilities={"1": right, "0": 1 - right},
        usage=Usage(prompt_tokens=7),
        **fields,
    )


def scored(score: float) -> ScoreResult:
    return ScoreResult(status=Status.OK, score=score, source="remote")


def member(result: ScoreResult, seen: list[Any], takes_s: float = 0.0) -> Ask:
    async def ask(body: dict[str, Any], explains: bool) -> Explanation:
        seen.append(body)
        await asyncio.sleep(takes_s)
        return Explanation(result=result, cached=True if explains else None)

    return ask


def cascade(asks: list[Ask], members: list[Any] | None = None, **settings: Any) -> Cascade:
    names = members or ["small", "large", "largest"][: len(asks)]
    config = {"name": "c", "kind": "cascade", "cascade": {"members": names, **settings}}
    return Cascade(CascadeModel.model_validate(config), asks)


@pytest.mark.parametrize(
    ("first", "passed_on"),
    [
        (verdict(0.99), False),
        (verdict(0.01), False),
        (verdict(0.81), False),
        (verdict(0.6), True),
        (verdict(0.3), True),
        (verdict(0.5, source="rule"), False),
        (verdict(0.7, source="cache"), True),
        (scored(0.5), True),
        (scored(1.0), False),
        (scored(-3.0), False),
        (failure(Status.UNPARSEABLE, "no verdict"), True),
        (failure(Status.OVERLOADED, "full"), True),
    ],
)
async def test_the_second_is_asked_where_the_first_is_unsure_or_failed(
    first: ScoreResult, passed_on: bool
) -> None:
    seen: list[Any] = []
    model = cascade([member(first, []), member(verdict(0.9), seen)])
    result = await model.score(REQUEST)

    assert bool(seen) is passed_on
    assert result.score == (1.0 if passed_on else first.score)
    assert (result.details or {})["decided_by"] == ("large" if passed_on else "small")
    assert model.describe()["cascade"] == {"small": 1, "large": int(passed_on)}


async def test_a_graded_template_is_unsure_by_its_expected_score() -> None:
    graded = verdict(0.5).model_copy(
        update={"score": 0.9, "label": "2", "probabilities": {"0": 0.05, "1": 0.1, "2": 0.85}}
    )
    result = await cascade([member(graded, []), member(verdict(0.0), [])]).score(REQUEST)
    assert result.score == 0.9


async def test_the_last_members_failure_is_the_result_and_never_an_unsure_score() -> None:
    full = failure(Status.OVERLOADED, "full", details={"retry_after_s": 3})
    result = await cascade([member(verdict(0.6), []), member(full, [])]).score(REQUEST)

    assert (result.score, result.status, result.reason) == (None, Status.OVERLOADED, "full")
    details: dict[str, Any] = dict(result.details or {})
    assert details["retry_after_s"] == 3
    assert details["members"]["small"]["score"] == 1.0


async def test_the_last_verdict_stands_however_unsure() -> None:
    result = await cascade([member(verdict(0.6), []), member(verdict(0.4), [])]).score(REQUEST)
    assert (result.score, result.source, result.label) == (0.0, "judge", "0")
    assert result.usage.prompt_tokens == 14


async def test_three_members_are_asked_in_turn() -> None:
    unsure = verdict(0.5)
    model = cascade([member(unsure, []), member(verdict(0.1), []), member(unsure, [])])
    assert (await model.score(REQUEST)).score == 0.0
    assert model.describe()["cascade"] == {"small": 1, "large": 1, "largest": 0}


def test_a_hanging_member_leaves_time_for_the_next() -> None:
    first: list[Any] = []
    second: list[Any] = []
    late = failure(Status.TIMEOUT, "late")
    model = cascade([member(late, first, takes_s=4.0), member(verdict(1.0), second)])
    result = virtual_time.run(lambda: model.score(REQUEST))

    assert result.score == 1.0
    assert first[0]["timeout_s"] == pytest.approx(5.0)
    assert second[0]["timeout_s"] == pytest.approx(6.0)


async def test_a_members_template_replaces_the_requests() -> None:
    first: list[Any] = []
    second: list[Any] = []
    members = ["small", {"model": "large", "application": "other", "template": "detailed"}]
    model = cascade([member(verdict(0.5), first), member(verdict(0.5), second)], members)
    await model.score(REQUEST.model_copy(update={"template": "solution"}))

    assert (first[0]["template"], second[0]["template"]) == ("solution", "detailed")
    assert not {"id", "model"} & first[0].keys()
    assert list(model.counts) == ["small", "other/large:detailed"]


async def test_the_fingerprint_is_of_the_settings_and_of_those_that_were_asked() -> None:
    def fingerprint(first: ScoreResult, **settings: Any) -> Any:
        return cascade([member(first, []), member(verdict(0.9, fingerprint="b"), [])], **settings)

    sure, unsure = verdict(0.99, fingerprint="a"), verdict(0.5, fingerprint="a")
    models = [
        fingerprint(sure),
        fingerprint(unsure),
        fingerprint(verdict(0.99, fingerprint="c")),
        fingerprint(sure, unsure=[0.3, 0.7]),
    ]
    found = [(await model.score(REQUEST)).fingerprint for model in models]
    assert len(set(found)) == 4
    assert (await fingerprint(sure).score(REQUEST)).fingerprint == found[0]


async def test_explaining_keeps_each_answer_and_counts_nothing() -> None:
    trace = Trace()
    model = cascade([member(verdict(0.5), []), member(verdict(1.0), [])])
    await model.score(REQUEST, trace)

    assert {name: each.cached for name, each in (trace.members or {}).items()} == {
        "small": True,
        "large": True,
    }
    assert model.counts == {"small": 0, "large": 0}


async def test_a_member_that_reads_no_rubric_is_asked_without_one() -> None:
    seen: list[Any] = []
    asks = [member(verdict(0.5), seen), member(verdict(0.9), seen)]
    members = [{"model": "small", "rubric": False}, "large"]
    await cascade(asks, members).score(REQUEST.model_copy(update={"rubric": "style"}))
    assert ["rubric" in body for body in seen] == [False, True]
