"""Composites and cascades of members that answer by themselves."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from reward_serve.config.models import CascadeModel, CompositeModel
from reward_serve.explanation import Explanation
from reward_serve.reward_models.base import Trace
from reward_serve.reward_models.composite import Ask, Cascade, Composite, length
from reward_serve.schema import Component, ScoreRequest, ScoreResult, Status, Usage, failure
from tests import virtual_time

REQUEST = ScoreRequest(response="#### 18", reference="18", id="a", model="c", timeout_s=10)
Answer = ScoreResult | Status | float | None


def member(answer: Answer, seen: list[Any] | None = None, takes_s: float = 0.0) -> Ask:
    """One that answers with this score, failure or result; None: never."""

    async def ask(body: dict[str, Any], explains: bool) -> Explanation:
        if seen is not None:
            seen.append(body)
        await asyncio.sleep(3600 if answer is None else takes_s)
        result = answer
        if isinstance(answer, Status):
            pause = {"retry_after_s": 3} if answer is Status.OVERLOADED else None
            result = failure(answer, "it could not", details=pause)
        if isinstance(answer, float):
            usage = Usage(prompt_tokens=7)
            result = ScoreResult(status=Status.OK, score=answer, source="judge", usage=usage)
        assert isinstance(result, ScoreResult)
        return Explanation(result=result, cached=True if explains else None)

    return ask


def composite(
    answers: Sequence[Answer | Ask], members: Sequence[Any] = ("a", "b", "c", "d"), **settings: Any
) -> Composite:
    named = {"members": members[: len(answers)], **settings}
    config = {"name": "c", "kind": "composite", "composite": named}
    asks = [answer if callable(answer) else member(answer) for answer in answers]
    return Composite(CompositeModel.model_validate(config), asks)


def details(result: ScoreResult) -> dict[str, Any]:
    return dict(result.details or {})


def components(result: ScoreResult) -> dict[str, tuple[float | None, str]]:
    parts = result.components or {}
    return {name: (part.score, part.status.value) for name, part in parts.items()}


WEIGHTS = [
    {"model": name, "weight": weight} for name, weight in (("a", 0.2), ("b", 0.3), ("c", 0.1))
]


@pytest.mark.parametrize(
    ("answers", "members", "score", "disagreement"),
    [
        ([1.0, 1.0, 1.0], "abc", 1.0, 0.0),
        ([1.0, 0.0, 1.0], "abc", 1.0, 1 / 3),
        ([1.0, 0.0, 0.0], "abc", 0.0, 1 / 3),
        ([0.6, 0.51, 0.1], "abc", 1.0, 1 / 3),
        ([1.0, 0.0], "ab", 0.0, 0.5),
        pytest.param([1.0, 0.0, 1.0], WEIGHTS, 0.0, 0.5, id="a tie but for rounding"),
        pytest.param([1.0, Status.TIMEOUT, 1.0], "abc", 1.0, 0.0, id="a failure is excluded"),
    ],
)
async def test_a_vote_is_right_where_more_than_half_say_so(
    answers: list[Answer], members: Sequence[Any], score: float, disagreement: float
) -> None:
    verdict = await composite(answers, list(members)).score(REQUEST)
    assert (verdict.score, verdict.label) == (score, "right" if score else "wrong")
    assert details(verdict)["disagreement"] == pytest.approx(disagreement)
    assert verdict.source == "composite"
    assert verdict.usage.prompt_tokens == 7 * sum(isinstance(answer, float) for answer in answers)


async def test_a_mean_is_weighted_and_tells_how_far_the_scores_lie_apart() -> None:
    members = [{"model": "a", "weight": 3}, "b"]
    verdict = await composite([1.0, 0.2], members, aggregate="mean").score(REQUEST)
    assert (verdict.score, details(verdict)["disagreement"]) == pytest.approx((0.8, 0.8))
    assert verdict.label is None


async def test_a_sum_adds_weighted_scores_and_needs_every_member() -> None:
    members = ["correct", {"model": "length", "weight": -0.01}]
    verdict = await composite([1.0, length], members, aggregate="sum").score(REQUEST)
    assert verdict.score == pytest.approx(1.0 - 0.01 * len(REQUEST.judged), abs=1e-9)
    assert "disagreement" not in details(verdict)
    verdict = await composite([Status.ERROR, length], members, aggregate="sum").score(REQUEST)
    assert (verdict.status, verdict.score) == (Status.ERROR, None)


async def test_a_member_is_sent_its_part_of_the_deadline_its_template_and_its_rubric() -> None:
    seen: list[Any] = []
    members = [{"model": "a", "rubric": False}, {"model": "b", "template": "solution"}, "c"]
    asked = REQUEST.model_copy(update={"rubric": "style"})
    model = composite([member(1.0, seen) for _ in members], members)
    trace = Trace()
    verdict = await model.score(asked, trace)
    shared = {"response": "#### 18", "reference": "18", "timeout_s": 9.0}
    rubric = {"rubric": "style"}
    assert seen == [shared, shared | rubric | {"template": "solution"}, shared | rubric]
    explained = [(member.result.score, member.cached) for member in (trace.members or {}).values()]
    assert explained == [(1.0, True)] * 3
    assert verdict == await model.score(asked)
    assert model.counts == {"agreed": 1, "disagreed": 0, "summed": 0, "failed": 0}


def test_a_member_that_is_silent_is_waited_for_no_longer_than_its_part() -> None:
    async def judged() -> tuple[ScoreResult, float]:
        began = asyncio.get_running_loop().time()
        verdict = await composite([1.0, None, 1.0]).score(REQUEST)
        return verdict, asyncio.get_running_loop().time() - began

    verdict, took_s = virtual_time.run(judged)
    assert verdict.score == 1.0
    assert took_s == pytest.approx(9)
    assert components(verdict) == {"a": (1.0, "ok"), "b": (None, "timeout"), "c": (1.0, "ok")}


@pytest.mark.parametrize(
    ("answers", "quorum", "status"),
    [
        ([Status.UNPARSEABLE, 1.0], 2, Status.UNPARSEABLE),
        ([Status.INVALID, Status.ERROR], 1, Status.ERROR),
        ([Status.INVALID, Status.ERROR], 2, Status.INVALID),
        ([Status.OVERLOADED, Status.ERROR, 1.0], 2, Status.OVERLOADED),
    ],
)
async def test_no_quorum_no_score(answers: list[Answer], quorum: int, status: Status) -> None:
    verdict = await composite(answers, quorum=quorum).score(REQUEST)
    assert (verdict.status, verdict.score, verdict.source) == (status, None, None)
    assert f"{quorum} are needed" in (verdict.reason or "")
    assert "it could not" in (verdict.reason or "")
    assert details(verdict).get("retry_after_s") == (3 if status is Status.OVERLOADED else None)


async def test_reasons_stay_with_their_members_and_a_critique_is_the_first_members() -> None:
    fields = {"status": Status.OK, "score": 0.0, "source": "judge"}
    wrote = ScoreResult(**fields, reason="It adds.", critique="Multiply.")
    other = ScoreResult(**fields, reason="Wrong.", critique="Try again.")
    result = await composite([1.0, wrote, other]).score(REQUEST)
    parts = result.components or {}
    assert [part.reason for part in parts.values()] == [None, "It adds.", "Wrong."]
    assert (result.reason, result.critique) == (None, "Multiply.")
    config = {"name": "c", "kind": "cascade", "cascade": {"members": ["a", "b"]}}
    model = Cascade(CascadeModel.model_validate(config), [member(0.5), member(wrote)])
    last = await model.score(REQUEST)
    assert (last.reason, last.critique) == ("It adds.", "Multiply.")


async def test_members_scores_are_components_and_so_are_their_own() -> None:
    parts = {"brief": Component(score=0.5, status=Status.OK)}
    rubric = ScoreResult(status=Status.OK, score=0.5, components=parts)
    verdict = await composite([1.0, rubric, Status.TIMEOUT], aggregate="mean").score(REQUEST)
    assert components(verdict) == {
        "a": (1.0, "ok"),
        "b": (0.5, "ok"),
        "c": (None, "timeout"),
        "b/brief": (0.5, "ok"),
    }


@pytest.mark.parametrize(
    ("gate", "style", "score"),
    [(1.0, (0.75, "ok"), 1.75), (0.0, (0.0, "ok"), 0.0), (Status.TIMEOUT, (None, "timeout"), None)],
)
async def test_a_gated_score_counts_only_where_the_other_is_high_enough(
    gate: Answer, style: tuple[float | None, str], score: float | None
) -> None:
    gated = {"model": "style", "clip": [0, 0.75], "gate": {"member": "correct", "below": 1}}
    verdict = await composite([gate, 2.0], ["correct", gated], aggregate="sum").score(REQUEST)
    assert components(verdict)["style"] == style
    assert verdict.score == score


def judged(right: float, source: Any = "judge") -> ScoreResult:
    """A binary judge's result, with its probability of right."""
    return ScoreResult(
        status=Status.OK,
        score=float(right >= 0.5),
        source=source,
        label="1" if right >= 0.5 else "0",
        probabilities={"1": right, "0": 1 - right},
        usage=Usage(prompt_tokens=7),
    )


def cascade(asks: list[Ask], members: Sequence[Any] = ("small", "large")) -> Cascade:
    config = {"name": "c", "kind": "cascade", "cascade": {"members": members}}
    return Cascade(CascadeModel.model_validate(config), asks)


@pytest.mark.parametrize(
    ("first", "passed_on"),
    [
        (judged(0.99), False),
        (judged(0.01), False),
        (judged(0.81), False),
        (judged(0.6), True),
        (judged(0.3), True),
        (judged(0.5, source="rule"), False),
        (judged(0.7, source="cache"), True),
        (0.5, True),
        (1.0, False),
        (-3.0, False),
        (Status.UNPARSEABLE, True),
        (Status.OVERLOADED, True),
    ],
)
async def test_the_second_is_asked_if_the_first_is_unsure(first: Answer, passed_on: bool) -> None:
    model = cascade([member(first), member(judged(0.9))])
    result = await model.score(REQUEST)
    first_score = first.score if isinstance(first, ScoreResult) else first
    assert result.score == (1.0 if passed_on else first_score)
    assert details(result)["decided_by"] == ("large" if passed_on else "small")
    assert model.describe()["cascade"] == {"small": 1, "large": int(passed_on)}


async def test_the_last_members_result_stands_unsure_or_failed() -> None:
    full = await cascade([member(judged(0.6)), member(Status.OVERLOADED)]).score(REQUEST)
    assert (full.score, full.status, full.reason) == (None, Status.OVERLOADED, "it could not")
    assert details(full)["retry_after_s"] == 3
    assert details(full)["members"]["small"]["score"] == 1.0
    unsure = await cascade([member(judged(0.6)), member(judged(0.4))]).score(REQUEST)
    assert (unsure.score, unsure.source, unsure.label) == (0.0, "judge", "0")
    assert unsure.usage.prompt_tokens == 14


def test_a_hanging_member_leaves_time_for_the_next() -> None:
    seen: list[Any] = []
    late = member(Status.TIMEOUT, seen, takes_s=4.0)
    result = virtual_time.run(lambda: cascade([late, member(judged(1.0), seen)]).score(REQUEST))
    assert result.score == 1.0
    assert [body["timeout_s"] for body in seen] == pytest.approx([5.0, 6.0])


async def test_a_members_template_replaces_the_requests() -> None:
    seen: list[Any] = []
    members = ["small", {"model": "large", "application": "other", "template": "detailed"}]
    model = cascade([member(judged(0.5), seen) for _ in members], members)
    await model.score(REQUEST.model_copy(update={"template": "solution"}))
    assert [body["template"] for body in seen] == ["solution", "detailed"]
    assert not {"id", "model"} & seen[0].keys()
    assert list(model.counts) == ["small", "other/large:detailed"]
