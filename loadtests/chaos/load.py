"""A load that knows the right answer of every request, and counts what it is told instead.

A request ends in one of six ways. It is ``right``; ``absent``, with a typed status and no score;
``wrong``, with another score than the right one (``silent_zeros`` are those of 0 for 1) or another
request's answer; ``lost``, with an untyped failure; or ``hung``, with nothing at all by its
deadline and a grace.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from loadtests.chaos.questions import Body, Question
from reward_serve.client import ServiceUnavailableError
from reward_serve.evaluation.bulk import percentile
from reward_serve.schema import ScoreResult, Status

GRACE_S = 8.0
"""Seconds after its deadline by which a request hangs; clients themselves wait 5 s for a service
that keeps no deadline."""
UNAVAILABLE = "unavailable"
"""The status of an absence by ``ServiceUnavailableError``, which the shared client never raises."""

Outcome = Literal["right", "absent", "wrong", "lost", "hung"]
Ask = Callable[[list[Body]], Awaitable[Sequence[ScoreResult]]]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a request ended.

    Attributes:
        way: by which it was asked.
        asked_s: when, by the tally's clock; in an open loop, when it was due.
        ended_s: when it ended.
        outcome: how.
        why: the status of an absence, or what was wrong.
    """

    way: str
    asked_s: float
    ended_s: float
    outcome: Outcome
    why: str = ""


def outcome_of(question: Question, answer: object) -> tuple[Outcome, str]:
    """What an answer, or what was raised in its place, is to its question."""
    if isinstance(answer, ServiceUnavailableError):
        return "absent", UNAVAILABLE
    if not isinstance(answer, ScoreResult):
        return "lost", type(answer).__name__
    own = (question.body["id"], question.body["metadata"])
    if (answer.id, answer.metadata) != own:
        return "wrong", "another request's answer"
    if answer.status is not Status.OK:
        return "absent", answer.status.value
    if answer.score == question.right:
        return "right", ""
    return "wrong", "silent zero" if answer.score == 0.0 else f"score {answer.score}"


class Tally:
    """Counts a load.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.asked = 0
        self.ended: list[Ended] = []

    def count(self, *outcomes: Outcome) -> int:
        """Requests that ended so."""
        return sum(one.outcome in outcomes for one in self.ended)

    def figures(self) -> dict[str, Any]:
        """Asked, right, absent by status, wrong, silent zeros, lost and hung."""
        absent = Counter(one.why for one in self.ended if one.outcome == "absent")
        return {
            "asked": self.asked,
            "right": self.count("right"),
            "absent": dict(sorted(absent.items())),
            "wrong": self.count("wrong"),
            "silent_zeros": sum(one.why == "silent zero" for one in self.ended),
            "lost": self.count("lost") + self.asked - len(self.ended),
            "hung": self.count("hung"),
            "why": dict(Counter(o.why for o in self.ended if o.outcome in ("wrong", "lost"))),
        }

    def waits_s(
        self, *outcomes: Outcome, since_s: float = 0.0, way: str | None = None
    ) -> list[float]:
        """How long requests took that were asked since then, by that way, and ended so."""
        return [
            one.ended_s - one.asked_s
            for one in self.ended
            if one.outcome in outcomes and one.asked_s >= since_s and way in (None, one.way)
        ]

    def recovered_s(self, since_s: float) -> dict[str, float]:
        """Way to seconds until the first right answer to a request asked since then."""
        found: dict[str, float] = {}
        for one in self.ended:
            if one.outcome == "right" and one.asked_s >= since_s:
                took = one.ended_s - since_s
                found[one.way] = min(found.get(one.way, took), took)
        return found

    def outage_s(self, since_s: float) -> dict[str, float]:
        """Way to the longest time without a right answer since then."""
        found: dict[str, float] = {}
        last: dict[str, float] = {}
        for one in sorted(self.ended, key=lambda one: one.ended_s):
            if one.outcome == "right" and one.ended_s >= since_s:
                gap = one.ended_s - last.get(one.way, since_s)
                found[one.way] = max(found.get(one.way, 0.0), gap)
                last[one.way] = one.ended_s
        return found

    async def put(
        self, way: str, ask: Ask, questions: Sequence[Question], due_s: float | None = None
    ) -> None:
        """Ask these together, wait for their ends and count them."""
        asked_s = self.clock() if due_s is None else due_s
        self.asked += len(questions)
        patience_s = max(question.body["timeout_s"] for question in questions) + GRACE_S
        answers: Sequence[object]
        try:
            async with asyncio.timeout(patience_s) as patience:
                answers = await ask([question.body for question in questions])
        except Exception as error:
            if patience.expired():
                self._end(way, asked_s, [("hung", "")] * len(questions))
                return
            answers = [error] * len(questions)
        if len(answers) != len(questions):
            answers = [None] * len(questions)
        self._end(way, asked_s, list(map(outcome_of, questions, answers)))

    def _end(self, way: str, asked_s: float, outcomes: Iterable[tuple[Outcome, str]]) -> None:
        now = self.clock()
        self.ended += [Ended(way, asked_s, now, outcome, why) for outcome, why in outcomes]


async def closed_loop(
    tally: Tally,
    ways: Mapping[str, Ask],
    questions: Iterator[Question],
    callers: int,
    until: Callable[[], bool],
) -> None:
    """So many callers for each way, who each ask the next question when the last has ended."""

    async def caller(way: str, ask: Ask) -> None:
        while not until():
            question = next(questions, None)
            if question is None:
                return
            await tally.put(way, ask, [question])

    await asyncio.gather(*(caller(*way) for way in ways.items() for _ in range(callers)))


async def open_loop(
    tally: Tally,
    ways: Mapping[str, Ask],
    questions: Iterator[Question],
    per_s: float,
    duration_s: float,
    together: int = 1,
    seed: int = 0,
) -> None:
    """Questions that arrive as a Poisson process, whatever became of the earlier ones.

    Args:
        tally: counts them.
        ways: which each take their turn.
        questions: to ask.
        per_s: questions a second.
        duration_s: for how long they come; those under way then are waited for.
        together: questions a call.
        seed: of the arrivals.
    """
    rng = Random(seed)
    calls = set()
    began = due_s = tally.clock()
    turn = 0
    while True:
        due_s += rng.expovariate(per_s / together)
        if due_s - began > duration_s:
            break
        await asyncio.sleep(max(0.0, due_s - tally.clock()))
        way, ask = list(ways.items())[turn % len(ways)]
        turn += 1
        asked = [next(questions) for _ in range(together)]
        call = asyncio.create_task(tally.put(way, ask, asked, due_s))
        calls.add(call)
        call.add_done_callback(calls.discard)
    await asyncio.gather(*calls)


def quantiles(seconds: Sequence[float]) -> dict[str, float | None]:
    """The median, two high percentiles and the longest, in seconds; None of none."""
    cuts = {f"p{percent}_s": percentile(seconds, percent) for percent in (50, 95, 99)}
    cuts["max_s"] = max(seconds, default=None)
    return {name: None if cut is None else round(cut, 3) for name, cut in cuts.items()}
