"""What was asked and what came of it: the figures of a run, and whether it passed.

After the load every input is asked once more, in peace and past the service's cache, and each
answer under load must agree. It is done after and not before, for the engine keeps the prefixes
it has seen: had it seen these inputs, the load would be lighter than rollouts are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtests.load.checking import Checked, Outcome, disagreement, lost, too_close
from loadtests.load.corpus import Body, Sample
from loadtests.load.shapes import Shape
from reward_serve.evaluation.bulk import RIGHT, percentile
from reward_serve.schema import ScoreResult, Status

Peace = Callable[[Sequence[Body]], Sequence[ScoreResult | None]]
"""Asks a few requests at once; None where there was no answer."""

_BATCH = 16
_ATTEMPTS = 3
_REASONS = 20


@dataclass(frozen=True)
class _Answer:
    sample: Sample
    result: ScoreResult
    entry: str


@dataclass
class Tally:
    """Counts a run.

    Attributes:
        tolerated: statuses that the shape provokes and that no run fails on.
    """

    tolerated: frozenset[Status] = frozenset()
    asked: int = 0
    right: int = 0
    too_close: int = 0
    unchecked: int = 0
    wrong: int = 0
    lost: int = 0
    absent: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    _answers: list[_Answer] = field(default_factory=list)
    _labelled: list[bool] = field(default_factory=list)
    _waits_ms: list[float] = field(default_factory=list)
    _first_s: float | None = None
    _last_s: float = 0.0

    def ask(self, samples: Sequence[Sample], now_s: float) -> None:
        """Samples are on their way."""
        self.asked += len(samples)
        if self._first_s is None:
            self._first_s = now_s

    def take(
        self, sample: Sample, checked: Checked, wait_ms: float, now_s: float, entry: str
    ) -> None:
        """A sample's reply, under its entry in locust's table; ``wait_ms`` since it was due."""
        self._count(checked)
        if checked.result is not None:
            self._answers.append(_Answer(sample, checked.result, entry))
            self._waits_ms.append(wait_ms)
            self._last_s = now_s
            self.sources[str(checked.result.source)] += 1

    def close(self) -> None:
        """The load is over: what has no reply by now is lost."""
        counted = len(self._answers) + sum(self.absent.values()) + self.wrong + self.lost
        for _ in range(self.asked - counted):
            self._count(lost("no answer when the run ended"))

    def settle(self, ask: Peace, found: Callable[[str, str], None]) -> None:
        """Compare every answer with the one for its input in peace.

        Args:
            ask: the same service.
            found: told the entry and the fault of each answer that is wrong.
        """
        peace = self._in_peace(ask)
        for answer in self._answers:
            unhurried = peace.get(answer.sample.input)
            if unhurried is None:
                self.unchecked += 1
            elif too_close(unhurried):
                self.too_close += 1
            elif fault := disagreement(answer.result, unhurried):
                checked = Checked("wrong", fault)
                self._count(checked)
                found(answer.entry, str(checked.failure))
            else:
                self.right += 1
                if answer.sample.correct is not None:
                    agreed = (unhurried.score or 0.0) >= RIGHT
                    self._labelled.append(agreed is answer.sample.correct)

    def summary(self) -> dict[str, Any]:
        """The run as JSON data; latency is of answers, in ms from when they were due."""
        seconds = self._last_s - (self._first_s or 0.0)
        return {
            "asked": self.asked,
            "right": self.right,
            "absent": dict(self.absent),
            "wrong": self.wrong,
            "lost": self.lost,
            "too_close": self.too_close,
            "unchecked": self.unchecked,
            **{f"p{percent}_ms": percentile(self._waits_ms, percent) for percent in (50, 95, 99)},
            "answers_per_s": len(self._answers) / seconds if seconds > 0 else None,
            "sources": dict(self.sources),
            "agreement_with_labels": (
                sum(self._labelled) / len(self._labelled) if self._labelled else None
            ),
            "reasons": dict(self.reasons.most_common(_REASONS)),
        }

    def faults(self, max_absent: float) -> list[str]:
        """Why the run failed; none when it passed.

        Args:
            max_absent: the share of what was asked that may come to no score, statuses that the
                shape tolerates apart.
        """
        absent = sum(n for status, n in self.absent.items() if status not in self.tolerated)
        share = absent / self.asked if self.asked else 0.0
        told = {
            "nothing was asked": not self.asked,
            f"{self.wrong} wrong": self.wrong,
            f"{self.lost} lost": self.lost,
            f"{self.unchecked} answers could not be checked": self.unchecked,
            f"{absent} absent, {share:.1%} of what was asked": share > max_absent,
        }
        return [fault for fault, holds in told.items() if holds]

    def _count(self, checked: Checked) -> None:
        outcome: Outcome = checked.outcome
        if outcome == "wrong":
            self.wrong += 1
        elif outcome == "lost":
            self.lost += 1
        elif outcome == "absent":
            self.absent[checked.why] += 1
        if checked.failure:
            self.reasons[checked.failure] += 1

    def _in_peace(self, ask: Peace) -> dict[int, ScoreResult]:
        bodies = {a.sample.input: _past_the_cache(a.sample.body) for a in self._answers}
        found: dict[int, ScoreResult] = {}
        for _ in range(_ATTEMPTS):
            missing = [number for number in bodies if number not in found]
            for first in range(0, len(missing), _BATCH):
                numbers = missing[first : first + _BATCH]
                results = ask([bodies[number] for number in numbers])
                for number, result in zip(numbers, results, strict=True):
                    if result is not None and result.status is Status.OK:
                        found[number] = result
        return found


def tolerated(shape: Shape) -> frozenset[Status]:
    """What a shape provokes: a spike is there to have the service shed load."""
    return frozenset([Status.OVERLOADED]) if shape == "spike" else frozenset()


def _past_the_cache(body: Body) -> Body:
    return {**body, "options": {"cache": False}}
