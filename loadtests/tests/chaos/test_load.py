from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from loadtests.chaos import load
from loadtests.chaos.load import (
    Outcome,
    RequestRecord,
    Tally,
    closed_loop,
    open_loop,
    outcome_of,
    quantiles,
)
from loadtests.chaos.questions import Question, Questions, chosen, marked, prose
from reward_serve.client import ServiceUnavailableError
from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_answers import verify_any

Body = dict[str, Any]


def question(right: float = 1.0) -> Question:
    body = {"id": "q", "metadata": {"number": 7}, "timeout_s": 5.0, "response": "", "options": {}}
    return Question(body, right)


def scored(score: float, **fields: Any) -> ScoreResult:
    echoed = {"id": "q", "metadata": {"number": 7}, **fields}
    return ScoreResult(status=Status.OK, score=score, source="judge", **echoed)


@pytest.mark.parametrize(
    ("right", "answer", "outcome"),
    [
        (1.0, scored(1.0), ("right", "")),
        (0.0, scored(0.0), ("right", "")),
        (0.0, scored(1.0), ("wrong", "score 1.0")),
        (1.0, scored(0.0), ("wrong", "silent zero")),
        (1.0, scored(1.0, id="another"), ("wrong", "another request's answer")),
        (1.0, scored(1.0, metadata={"number": 8}), ("wrong", "another request's answer")),
        (1.0, ServiceUnavailableError("gone"), ("absent", "unavailable")),
        (1.0, KeyError("bug"), ("lost", "KeyError")),
        (1.0, None, ("lost", "NoneType")),
    ],
)
def test_the_outcome_of_an_answer(right: float, answer: object, outcome: tuple[str, str]) -> None:
    assert outcome_of(question(right), answer) == outcome


@pytest.mark.parametrize("status", ["timeout", "overloaded", "error", "truncated", "unparseable"])
def test_an_answer_without_a_score_is_absent_with_its_status(status: str) -> None:
    answer = failure(Status(status), "why", id="q", metadata={"number": 7})
    assert outcome_of(question(), answer) == ("absent", status)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def answering(pick: Callable[[Body], float]) -> load.Ask:
    async def ask(bodies: list[Body]) -> Sequence[ScoreResult]:
        await asyncio.sleep(0)
        echoed = [{"id": body["id"], "metadata": body["metadata"]} for body in bodies]
        return [scored(pick(body), **own) for body, own in zip(bodies, echoed, strict=True)]

    return ask


def by_numbers(body: Body) -> float:
    return float(body["response"].split()[3] == body["reference"])


async def test_right_answers_are_counted_as_right() -> None:
    tally = Tally()
    few = itertools.islice(Questions(prose, "run", 5.0), 200)
    await closed_loop(tally, {"one": answering(by_numbers)}, few, 8, lambda: False)
    figures = tally.figures()
    assert (figures["asked"], figures["right"]) == (200, 200)


async def test_a_service_that_always_returns_zero_is_caught() -> None:
    tally = Tally()
    few = itertools.islice(Questions(prose, "run", 5.0), 200)
    await closed_loop(tally, {"zero": answering(lambda body: 0.0)}, few, 8, lambda: False)
    figures = tally.figures()
    assert 60 < figures["silent_zeros"] == figures["wrong"] < 140
    assert figures["right"] + figures["wrong"] == 200


async def test_a_request_without_an_answer_is_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "GRACE_S", 0.01)

    async def silent(bodies: list[Body]) -> Sequence[ScoreResult]:
        await asyncio.Event().wait()
        return []

    tally = Tally()
    few = list(itertools.islice(Questions(prose, "run", 0.01), 3))
    await tally.send("way", silent, few)
    assert tally.figures()["hung"] == 3


async def test_a_batch_with_too_few_results_is_lost() -> None:
    async def short(bodies: list[Body]) -> Sequence[ScoreResult]:
        return [scored(1.0)]

    tally = Tally()
    await tally.send("way", short, list(itertools.islice(Questions(prose, "run", 5.0), 2)))
    assert tally.figures()["lost"] == 2


async def test_a_request_without_an_end_is_lost() -> None:
    tally = Tally()
    tally.asked = 3
    assert tally.figures()["lost"] == 3


async def test_recovery_is_measured_from_the_fault_and_by_requests_sent_after_it() -> None:
    clock = Clock()
    tally = Tally(clock)
    questions = Questions(prose, "run", 5.0)

    def right_after(seconds: float) -> load.Ask:
        def pick(body: Body) -> float:
            clock.now += seconds
            return by_numbers(body)

        return answering(pick)

    await tally.send("handle", right_after(1.0), [next(questions)], due_s=clock.now)
    injected_s = clock.now
    assert tally.recovered_s(injected_s) == {}
    await tally.send("handle", right_after(4.0), [next(questions)])
    await tally.send("handle", right_after(1.0), [next(questions)])
    assert tally.recovered_s(injected_s) == {"handle": 4.0}
    assert tally.latencies_s("right", since_s=injected_s) == [4.0, 1.0]
    assert tally.latencies_s("right", since_s=injected_s, way="http") == []


def test_an_outage_is_the_longest_time_without_a_right_answer_by_each_way() -> None:
    tally = Tally()
    assert tally.outage_s(0.0) == {}
    ends: list[tuple[str, float, Outcome]] = [
        ("http", 1.0, "right"),
        ("http", 3.0, "right"),
        ("http", 4.0, "absent"),
        ("handle", 6.0, "right"),
        ("http", 8.0, "right"),
        ("http", 9.0, "right"),
    ]
    tally.records = [RequestRecord(way, 0.0, at_s, outcome) for way, at_s, outcome in ends]
    assert tally.outage_s(2.0) == {"http": 5.0, "handle": 4.0}
    assert tally.outage_s(8.5) == {"http": 0.5}


async def test_an_open_loop_sends_regardless_of_earlier_answers() -> None:
    begun = 0

    async def stuck(bodies: list[Body]) -> Sequence[ScoreResult]:
        nonlocal begun
        begun += len(bodies)
        await asyncio.sleep(0.3)
        return await answering(by_numbers)(bodies)

    tally = Tally()
    ways = {"a": stuck, "b": stuck}
    await open_loop(tally, ways, Questions(prose, "run", 5.0), 400.0, 0.25, together=4)
    assert begun == tally.asked
    assert 40 < begun < 200
    assert tally.figures()["right"] == begun
    assert {one.way for one in tally.records} == {"a", "b"}


def test_questions_repeat_with_their_seed_and_half_are_right() -> None:
    once, again = (list(itertools.islice(Questions(marked, "run", 5.0), 300)) for _ in range(2))
    assert once == again
    assert len({one.body["id"] for one in once}) == 300
    assert 100 < sum(one.right for one in once) < 200


def test_a_rule_decides_marked_questions_rightly() -> None:
    for one in itertools.islice(Questions(marked, "run", 5.0), 100):
        outcome = verify_any(one.body["response"], [one.body["reference"]]).outcome
        assert outcome == ("right" if one.right else "wrong")


def test_no_rule_decides_prose() -> None:
    for one in itertools.islice(Questions(prose, "run", 5.0), 100):
        outcome = verify_any(one.body["response"], [one.body["reference"]]).outcome
        assert outcome == "abstain" or not one.right


def test_chosen_draws_from_the_pool() -> None:
    pool = [({"response": "a", "reference": "1"}, 1.0), ({"response": "b", "reference": "2"}, 0.0)]
    drawn = [chosen(pool)(Random(seed)) for seed in range(20)]
    assert all(drawn.count(pair) for pair in pool)


def test_quantiles_without_values_are_none() -> None:
    assert quantiles([]) == dict.fromkeys(["p50_s", "p95_s", "p99_s", "max_s"])
    assert quantiles([1.0, 3.0])["max_s"] == 3.0
