from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loadtests.chaos import load
from loadtests.chaos.__main__ import _run
from loadtests.chaos.load import (
    Outcome,
    RequestRecord,
    Tally,
    closed_loop,
    open_loop,
    outcome_of,
)
from loadtests.chaos.questions import Question, marked, prose, questions_of
from loadtests.chaos.report import ALWAYS_ZERO, all_right, recovers, table, with_bounds
from reward_serve.client import ServiceUnavailableError
from reward_serve.logprobs import LogprobsResult
from reward_serve.schema import ScoreResult, Status, failure
from reward_serve_answers import verify_any

Body = dict[str, Any]


OWN: Body = {"id": "q", "metadata": {"number": 7}}


def scored(score: float, **fields: Any) -> ScoreResult:
    return ScoreResult(status=Status.OK, score=score, source="judge", **{**OWN, **fields})


def tokens(logprobs: list[float], **fields: Any) -> LogprobsResult:
    return LogprobsResult(status=Status.OK, logprobs=logprobs, **{**OWN, **fields})


@pytest.mark.parametrize(
    ("right", "answer", "outcome"),
    [
        (1.0, scored(1.0), ("right", "")),
        (0.0, scored(0.0), ("right", "")),
        (0.0, scored(1.0), ("wrong", "score 1.0")),
        (1.0, scored(0.0), ("wrong", "silent zero")),
        (1.0, scored(1.0, id="another"), ("wrong", "another request's answer")),
        (1.0, scored(1.0, metadata={"number": 8}), ("wrong", "another request's answer")),
        (1.0, failure(Status.TIMEOUT, "why", **OWN), ("absent", "timeout")),
        (1.0, ServiceUnavailableError("gone"), ("absent", "unavailable")),
        (1.0, KeyError("bug"), ("lost", "KeyError")),
        (1.0, None, ("lost", "NoneType")),
        ([-2.0, -0.5], tokens([-2.0001, -0.5]), ("right", "")),
        ([-2.0, -0.5], tokens([-0.5, -2.0]), ("wrong", "log-probabilities")),
        ([-2.0, -0.5], tokens([-2.0]), ("wrong", "log-probabilities")),
        ([-2.0], tokens([-2.0], id="another"), ("wrong", "another request's answer")),
    ],
)
def test_the_outcome_of_an_answer(right: object, answer: object, outcome: tuple[str, str]) -> None:
    assert outcome_of(Question(OWN, right), answer) == outcome


def answering(pick: Callable[[Body], float]) -> load.Ask:
    async def ask(bodies: list[Body]) -> Sequence[ScoreResult]:
        await asyncio.sleep(0)
        echoed = [{"id": body["id"], "metadata": body["metadata"]} for body in bodies]
        return [scored(pick(body), **fields) for body, fields in zip(bodies, echoed, strict=True)]

    return ask


def by_numbers(body: Body) -> float:
    return float(body["response"].split()[3] == body["reference"])


@pytest.mark.parametrize("honest", [True, False])
async def test_right_answers_are_counted_and_zeros_instead_are_caught(honest: bool) -> None:
    tally = Tally()
    few = itertools.islice(questions_of(prose, "run", 5.0), 200)
    ask = answering(by_numbers if honest else lambda _: 0.0)
    await closed_loop(tally, {"one": ask}, few, 8, lambda: False)
    figures = tally.figures()
    assert figures["asked"] == figures["right"] + figures["wrong"] == 200
    assert figures["silent_zeros"] == figures["wrong"]
    assert figures["wrong"] == 0 if honest else 60 < figures["wrong"] < 140


async def test_what_has_no_answer_is_hung_or_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "GRACE_S", 0.01)

    async def silent(bodies: list[Body]) -> Sequence[ScoreResult]:
        await asyncio.Event().wait()
        return []

    async def short(bodies: list[Body]) -> Sequence[ScoreResult]:
        return [scored(1.0)]

    tally, questions = Tally(), questions_of(prose, "run", 0.01)
    await tally.send("way", silent, list(itertools.islice(questions, 3)))
    await tally.send("way", short, list(itertools.islice(questions, 2)))
    tally.asked += 4  # without an end
    assert (tally.figures()["hung"], tally.figures()["lost"]) == (3, 2 + 4)


def test_outage_and_recovery_are_measured_from_the_fault_by_each_way() -> None:
    tally = Tally()
    assert tally.outage_s(0.0) == tally.recovered_s(0.0) == {}
    ends: list[tuple[str, float, float, Outcome]] = [
        ("http", 0.0, 1.0, "right"),
        ("http", 1.0, 3.0, "right"),  # asked before the fault at 2.0
        ("http", 3.0, 4.0, "absent"),
        ("handle", 3.0, 6.0, "right"),
        ("http", 4.0, 8.0, "right"),
        ("http", 8.0, 9.0, "right"),
    ]
    tally.records = [RequestRecord(*end) for end in ends]
    assert tally.outage_s(2.0) == {"http": 5.0, "handle": 4.0}
    assert tally.recovered_s(2.0) == {"http": 6.0, "handle": 4.0}
    assert tally.latencies_s("absent") == [1.0]


async def test_an_open_loop_sends_regardless_of_earlier_answers() -> None:
    over, begun = asyncio.Event(), 0

    async def stuck(bodies: list[Body]) -> Sequence[ScoreResult | LogprobsResult]:
        nonlocal begun
        begun += len(bodies)
        if begun >= 20:
            over.set()
        await over.wait()
        return await answering(by_numbers)(bodies)

    tally = Tally()
    ways = {"a": stuck, "b": stuck}
    await open_loop(tally, ways, questions_of(prose, "run", 60.0), 400.0, 0.25, together=4)
    assert begun == tally.asked == tally.figures()["right"] >= 20
    assert {record.way for record in tally.records} == {"a", "b"}


def test_questions_repeat_with_their_seed_and_only_marked_ones_are_decided_by_a_rule() -> None:
    once, again = (list(itertools.islice(questions_of(marked, "run", 5.0), 300)) for _ in range(2))
    assert once == again
    assert len({question.body["id"] for question in once}) == 300
    assert 100 < sum(question.right for question in once) < 200
    for question in once:
        assert ruled(question) == ("right" if question.right else "wrong")
    for question in itertools.islice(questions_of(prose, "run", 5.0), 100):
        assert ruled(question) == "abstain" or not question.right


def ruled(question: Question) -> str:
    return verify_any(question.body["response"], [question.body["reference"]]).outcome


def test_what_a_report_misses() -> None:
    zeros = dict.fromkeys(ALWAYS_ZERO, 0)
    figures = {**zeros, "asked": 10, "right": 10, "recovered_s": 1.5, "healed_s": 2.0}
    assert with_bounds(figures, {**all_right(figures), **recovers(figures)})["missed"] == []
    late = with_bounds(figures, recovers(figures, 1.0))
    assert late["missed"] == ["bound: it recovered within 1 s"]
    gone = {**figures, "right": 9, "wrong": 2, "hung": 1, "recovered_s": None, "healed_s": None}
    assert with_bounds(gone, recovers(gone))["missed"] == [
        "wrong: 2",
        "hung: 1",
        "bound: every request has its score",
        "bound: it recovered within 180 s",
        "bound: what failed was replaced",
    ]


def test_an_aborted_scenario_is_a_miss_and_earlier_ones_are_kept() -> None:
    def run(names: Any) -> Any:
        yield names[0], {"missed": []}
        raise RuntimeError("no cluster")

    reports = dict(_run(run, ["a", "b"]))
    assert reports["a"]["missed"] == []
    assert reports["b"]["missed"] == ["aborted: RuntimeError: no cluster"]
    assert table(reports).row_count == 2
