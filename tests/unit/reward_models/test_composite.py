from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reward_serve.config.models import CompositeModel
from reward_serve.explanation import Explanation
from reward_serve.reward_models.base import Trace
from reward_serve.reward_models.composite import Ask, Composite, length
from reward_serve.schema import Component, ScoreRequest, ScoreResult, Status, Usage, failure
from tests import virtual_time

REQUEST = ScoreRequest(response="#### 18", reference="18", id="a", model="c", timeout_s=10)


def member(score: float | None, status: Status = Status.OK, seen: list[Any] | None = None) -> Ask:
    async def ask(body: dict[str, Any], explains: bool) -> Explanation:
        if seen is not None:
            seen.append(body)
        await asyncio.sleep(0)
        if score is None:
            return Explanation(result=failure(status, "it could not", fingerprint="f"))
        result = ScoreResult(
            status=Status.OK,
            score=score,
            source="judge",
            fingerprint="f",
            usage=Usage(prompt_tokens=7),
        )
        return Explanation(result=result, cached=True if explains else None)

    return ask


def composite(asks: list[Ask], members: list[Any] | None = None, **settings: Any) -> Composite:
    names = settings.pop("members", None) or members or [f"m{i}" for i in range(len(asks))]
    config = CompositeModel.model_validate(
        {"name": "c", "kind": "composite", "composite": {"members": names, **settings}}
    )
    return Composite(config, asks)


def details(result: ScoreResult) -> dict[str, Any]:
    return dict(result.details or {})


@pytest.mark.parametrize(
    ("scores", "score", "disagreement"),
    [
        ([1.0, 1.0, 1.0], 1.0, 0.0),
        ([1.0, 0.0, 1.0], 1.0, 1 / 3),
        ([1.0, 0.0, 0.0], 0.0, 1 / 3),
        ([0.6, 0.51, 0.1], 1.0, 1 / 3),
        ([1.0, 0.0], 0.0, 0.5),
    ],
)
async def test_a_vote_is_right_where_more_than_half_say_so(
    scores: list[float], score: float, disagreement: float
) -> None:
    verdict = await composite([member(each) for each in scores]).score(REQUEST)
    assert (verdict.score, verdict.label) == (score, "right" if score else "wrong")
    assert details(verdict)["disagreement"] == pytest.approx(disagreement)
    assert verdict.source == "composite"
    assert verdict.usage.prompt_tokens == 7 * len(scores)


async def test_a_mean_is_weighted_and_tells_how_far_the_scores_lie_apart() -> None:
    members = [{"model": "a", "weight": 3}, "b"]
    verdict = await composite([member(1.0), member(0.2)], members, aggregate="mean").score(REQUEST)
    assert verdict.score == pytest.approx(0.8)
    assert details(verdict)["disagreement"] == pytest.approx(0.8)
    assert verdict.label is None


async def test_members_have_a_part_of_the_deadline_and_their_own_template() -> None:
    seen: list[Any] = []
    members = ["a", {"model": "b", "template": "solution"}]
    await composite([member(1.0, seen=seen), member(1.0, seen=seen)], members).score(REQUEST)
    assert [body["timeout_s"] for body in seen] == [9.0, 9.0]
    assert [body.get("template") for body in seen] == [None, "solution"]
    assert all(body.keys().isdisjoint({"id", "model"}) for body in seen)
    assert {body["reference"] for body in seen} == {"18"}


async def test_weights_that_do_not_add_up_in_floating_point_are_a_tie_all_the_same() -> None:
    members = [{"model": "a", "weight": 0.2}, {"model": "b", "weight": 0.3}]
    members.append({"model": "c", "weight": 0.1})
    judged = composite([member(1.0), member(0.0), member(1.0)], members)
    assert (await judged.score(REQUEST)).score == 0.0


def test_a_member_that_is_silent_is_waited_for_no_longer_than_its_part() -> None:
    async def silent(*_: Any) -> Explanation:
        await asyncio.sleep(3600)
        raise AssertionError

    async def judged() -> tuple[ScoreResult, float]:
        began = asyncio.get_running_loop().time()
        verdict = await composite([member(1.0), silent, member(1.0)]).score(REQUEST)
        return verdict, asyncio.get_running_loop().time() - began

    verdict, took_s = virtual_time.run(judged)
    assert verdict.score == 1.0
    assert took_s == pytest.approx(9)
    assert details(verdict)["members"]["m1"]["status"] == "timeout"


async def test_a_failed_member_is_excluded() -> None:
    verdict = await composite([member(1.0), member(None, Status.TIMEOUT), member(1.0)]).score(
        REQUEST
    )
    assert verdict.score == 1.0
    members = details(verdict)["members"]
    assert (members["m1"]["status"], members["m1"]["score"]) == ("timeout", None)
    assert details(verdict)["disagreement"] == 0.0


@pytest.mark.parametrize(
    ("statuses", "quorum", "status"),
    [
        ([Status.UNPARSEABLE, Status.OK], 2, Status.UNPARSEABLE),
        ([Status.INVALID, Status.ERROR], 1, Status.ERROR),
        ([Status.INVALID, Status.ERROR], 2, Status.INVALID),
        ([Status.OVERLOADED, Status.ERROR, Status.OK], 2, Status.OVERLOADED),
    ],
)
async def test_without_a_quorum_there_is_no_score(
    statuses: list[Status], quorum: int, status: Status
) -> None:
    asks = [member(1.0 if each is Status.OK else None, each) for each in statuses]
    judged = composite(asks, quorum=quorum)
    verdict = await judged.score(REQUEST)
    assert (verdict.status, verdict.score, verdict.source) == (status, None, None)
    assert f"{quorum} are needed" in (verdict.reason or "")
    assert "it could not" in (verdict.reason or "")


async def test_a_composite_is_explained_by_its_members_explanations() -> None:
    seen: list[Any] = []
    model = composite([member(score, seen=seen) for score in (1.0, 0.0, 1.0)], ["a", "b", "c"])
    trace = Trace()
    verdict = await model.score(REQUEST, trace)

    assert verdict == await model.score(REQUEST)
    assert {n: (e.result.score, e.cached) for n, e in (trace.members or {}).items()} == {
        "a": (1.0, True), "b": (0.0, True), "c": (1.0, True),
    }  # fmt: skip
    assert all(0 < body["timeout_s"] < 10 for body in seen)
    assert model.counts == {"agreed": 0, "disagreed": 1, "summed": 0, "failed": 0}


async def test_a_sum_adds_weighted_scores_and_needs_every_member() -> None:
    members = ["correct", {"model": "length", "weight": -0.01}]
    summed = composite([member(1.0), length], members, aggregate="sum")
    verdict = await summed.score(REQUEST)
    assert verdict.score == pytest.approx(1.0 - 0.01 * len(REQUEST.response), abs=1e-9)
    assert "disagreement" not in details(verdict)
    failed = composite([member(None, Status.ERROR), length], members, aggregate="sum")
    verdict = await failed.score(REQUEST)
    assert (verdict.status, verdict.score) == (Status.ERROR, None)


async def test_a_member_that_reads_no_rubric_is_asked_without_one() -> None:
    seen: list[Any] = []
    asks = [member(1.0, seen=seen) for _ in range(3)]
    members = [{"model": "rule", "rubric": False}, {"model": "rubric", "rubric": True}, "elsewhere"]
    verdict = await composite(asks, members).score(REQUEST.model_copy(update={"rubric": "style"}))
    assert verdict.score == 1.0
    assert [body.get("rubric") for body in seen] == [None, "style", "style"]
    assert "rubric" not in seen[0]


async def test_members_scores_are_components_and_so_are_their_own() -> None:
    async def of_criteria(*_: Any) -> Explanation:
        parts = {"brief": Component(score=0.5, status=Status.OK)}
        result = ScoreResult(status=Status.OK, score=0.5, components=parts)
        return Explanation(result=result)

    asks = [member(1.0), of_criteria, member(None, Status.TIMEOUT)]
    verdict = await composite(asks, ["rule", "rubric", "judge"], aggregate="mean").score(REQUEST)
    assert verdict.components is not None
    assert {name: (part.score, part.status.value) for name, part in verdict.components.items()} == {
        "rule": (1.0, "ok"),
        "rubric": (0.5, "ok"),
        "judge": (None, "timeout"),
        "rubric/brief": (0.5, "ok"),
    }


@pytest.mark.parametrize(
    ("correct", "expected"),
    [(1.0, {"correct": 1.0, "style": 0.75}), (0.0, {"correct": 0.0, "style": 0.0})],
)
async def test_a_gated_score_counts_only_where_the_other_is_high_enough(
    correct: float, expected: dict[str, float]
) -> None:
    gate = {"member": "correct", "below": 1}
    members = ["correct", {"model": "style", "clip": [0, 0.75], "gate": gate}]
    verdict = await composite([member(correct), member(2.0)], members, aggregate="sum").score(
        REQUEST
    )
    assert {name: part.score for name, part in (verdict.components or {}).items()} == expected
    assert verdict.score == sum(expected.values())


async def test_a_gate_whose_member_failed_leaves_no_score() -> None:
    gate = {"member": "correct", "below": 1}
    members = ["correct", {"model": "style", "gate": gate}, "other"]
    asks = [member(None, Status.TIMEOUT), member(1.0), member(1.0)]
    verdict = await composite(asks, members, quorum=2).score(REQUEST)
    style = (verdict.components or {})["style"]
    assert (style.score, style.status) == (None, Status.TIMEOUT)
    assert "its gate, correct, has no score" in (style.reason or "")
    assert (verdict.score, verdict.status) == (None, Status.TIMEOUT)
