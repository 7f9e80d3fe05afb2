"""A load with known right answers, and a count of the outcomes.

``right``: the right score, or the right log-probability of every token. ``absent``: a typed status
without either. ``wrong``: another value (``silent_zeros`` are scores of 0 instead of 1), or the
answer to another request. ``lost``: an untyped failure. ``hung``: no answer within the deadline
plus ``GRACE_S``.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from loadtests.chaos.questions import Body, Question, is_right
from reward_serve.client import ServiceUnavailableError
from reward_serve.logprobs import LogprobsResult
from reward_serve.schema import ScoreResult, Status
from reward_serve_lab.evaluation.bulk import percentile

GRACE_S = 8.0
"""Seconds after its deadline at which a request counts as hung; clients give up after 5 s."""
UNAVAILABLE = "unavailable"
"""Counted as the status of ``ServiceUnavailableError``, which the shared client never raises."""

Outcome = Literal["right", "absent", "wrong", "lost", "hung"]
Ask = Callable[[list[Body]], Awaitable[Sequence[ScoreResult | LogprobsResult]]]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A finished request.

    Attributes:
        way: how it was sent, such as ``handle`` or ``http``.
        asked_s: when it was sent, by the monotonic clock; in an open loop, when it was due.
        ended_s: when it ended.
        outcome: its outcome.
        why: the status if absent, else what was wrong.
    """

    way: str
    asked_s: float
    ended_s: float
    outcome: Outcome
    why: str = ""


def outcome_of(question: Question, answer: object) -> tuple[Outcome, str]:
    """The outcome of an answer, or of the exception raised instead, and why."""
    if isinstance(answer, ServiceUnavailableError):
        return "absent", UNAVAILABLE
    if not isinstance(answer, ScoreResult | LogprobsResult):
        return "lost", type(answer).__name__
    sent = (question.body["id"], question.body["metadata"])
    if (answer.id, answer.metadata) != sent:
        return "wrong", "another request's answer"
    if answer.status is not Status.OK:
        return "absent", answer.status.value
    if is_right(question, answer):
        return "right", ""
    if isinstance(answer, LogprobsResult):
        return "wrong", "log-probabilities"
    return "wrong", "silent zero" if answer.score == 0.0 else f"score {answer.score}"


class Tally:
    """Sends requests and records their outcomes."""

    def __init__(self) -> None:
        self.asked = 0
        self.records: list[RequestRecord] = []

    def figures(self) -> dict[str, Any]:
        """Counts of asked, right, absent by status, wrong, silent zeros, lost and hung."""
        counts = Counter(record.outcome for record in self.records)
        absent = Counter(record.why for record in self.records if record.outcome == "absent")
        return {
            "asked": self.asked,
            "right": counts["right"],
            "absent": dict(sorted(absent.items())),
            "wrong": counts["wrong"],
            "silent_zeros": sum(record.why == "silent zero" for record in self.records),
            "lost": counts["lost"] + self.asked - len(self.records),
            "hung": counts["hung"],
            "why": dict(Counter(o.why for o in self.records if o.outcome in ("wrong", "lost"))),
        }

    def latencies_s(self, *endings: str) -> list[float]:
        """Latencies of the requests with these outcomes, or absent with these statuses."""
        return [
            record.ended_s - record.asked_s
            for record in self.records
            if {record.outcome, record.why} & {*endings}
        ]

    def recovered_s(self, since_s: float) -> dict[str, float]:
        """By way: seconds until the first right answer to a request asked since then."""
        recovered: dict[str, float] = {}
        for record in self.records:
            if record.outcome == "right" and record.asked_s >= since_s:
                took = record.ended_s - since_s
                recovered[record.way] = min(recovered.get(record.way, took), took)
        return recovered

    def outage_s(self, since_s: float) -> dict[str, float]:
        """By way: the longest time without a right answer since then."""
        outages: dict[str, float] = {}
        last: dict[str, float] = {}
        for record in sorted(self.records, key=lambda record: record.ended_s):
            if record.outcome == "right" and record.ended_s >= since_s:
                gap = record.ended_s - last.get(record.way, since_s)
                outages[record.way] = max(outages.get(record.way, 0.0), gap)
                last[record.way] = record.ended_s
        return outages

    async def send(
        self, way: str, ask: Ask, questions: Sequence[Question], due_s: float | None = None
    ) -> None:
        """Send questions in one call, wait for the answers and record the outcomes."""
        asked_s = time.monotonic() if due_s is None else due_s
        self.asked += len(questions)
        timeout_s = max(question.body["timeout_s"] for question in questions) + GRACE_S
        answers: Sequence[object]
        try:
            async with asyncio.timeout(timeout_s) as timeout:
                answers = await ask([question.body for question in questions])
        except Exception as error:
            if timeout.expired():
                self._record(way, asked_s, [("hung", "")] * len(questions))
                return
            answers = [error] * len(questions)
        if len(answers) != len(questions):
            answers = [None] * len(questions)
        self._record(way, asked_s, list(map(outcome_of, questions, answers)))

    def _record(self, way: str, asked_s: float, outcomes: Iterable[tuple[Outcome, str]]) -> None:
        now = time.monotonic()
        self.records += [
            RequestRecord(way, asked_s, now, outcome, why) for outcome, why in outcomes
        ]


async def closed_loop(
    tally: Tally,
    ways: Mapping[str, Ask],
    questions: Iterator[Question],
    callers: int,
    until: Callable[[], bool],
) -> None:
    """Run ``callers`` for each way; each sends its next question when the last one has ended."""

    async def caller(way: str, ask: Ask) -> None:
        while not until():
            question = next(questions, None)
            if question is None:
                return
            await tally.send(way, ask, [question])

    await asyncio.gather(*(caller(*way) for way in ways.items() for _ in range(callers)))


async def open_loop(
    tally: Tally,
    ways: Mapping[str, Ask],
    questions: Iterator[Question],
    per_s: float,
    duration_s: float,
    together: int = 1,
) -> None:
    """Send questions as a Poisson process, regardless of earlier answers, then wait for all.

    Args:
        tally: records the outcomes.
        ways: the ways to send, which take turns.
        questions: the questions to send.
        per_s: questions per second.
        duration_s: how long questions arrive.
        together: questions per call.
    """
    rng = Random(0)
    calls = set()
    began = due_s = time.monotonic()
    turn = 0
    while True:
        due_s += rng.expovariate(per_s / together)
        if due_s - began > duration_s:
            break
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        way, ask = list(ways.items())[turn % len(ways)]
        turn += 1
        asked = [next(questions) for _ in range(together)]
        call = asyncio.create_task(tally.send(way, ask, asked, due_s))
        calls.add(call)
        call.add_done_callback(calls.discard)
    await asyncio.gather(*calls)


def quantiles(seconds: Sequence[float]) -> dict[str, float | None]:
    """The 50th, 95th and 99th percentile and the maximum, in seconds; None without values."""
    cuts = {f"p{percent}_s": percentile(seconds, percent) for percent in (50, 95, 99)}
    cuts["max_s"] = max(seconds, default=None)
    return {name: None if cut is None else round(cut, 3) for name, cut in cuts.items()}
