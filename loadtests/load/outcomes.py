"""The figures of a load test, and whether it passed.

After the load every input is sent again without load, bypassing the service's cache, and each
answer under load must agree. This happens after the load because the engine caches prefixes: had it
seen the inputs before, the load would be lighter than real rollouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtests.load.checking import Checked, Outcome, disagreement, lost, too_close
from loadtests.load.corpus import Body, Sample
from loadtests.load.shapes import Shape
from reward_serve.schema import ScoreResult, Status
from reward_serve_lab.evaluation.bulk import RIGHT, percentile

AskBatch = Callable[[Sequence[Body]], Sequence[ScoreResult | None]]
"""Sends a batch; None for a request without an answer."""

_BATCH = 16
_ATTEMPTS = 3
_REASONS = 20


@dataclass(frozen=True)
class _Answer:
    sample: Sample
    result: ScoreResult
    entry: str


@dataclass
class Outcomes:
    """Counts the outcomes of a run.

    Attributes:
        tolerated: statuses that do not fail the run.
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
        """Count samples as sent."""
        self.asked += len(samples)
        if self._first_s is None:
            self._first_s = now_s

    def record(
        self, sample: Sample, checked: Checked, wait_ms: float, now_s: float, entry: str
    ) -> None:
        """Record a reply, ``wait_ms`` after it was due, for ``entry`` of locust's table."""
        self._count(checked)
        if checked.result is not None:
            self._answers.append(_Answer(sample, checked.result, entry))
            self._waits_ms.append(wait_ms)
            self._last_s = now_s
            self.sources[str(checked.result.source)] += 1

    def close(self) -> None:
        """End the load: samples without a reply are lost."""
        counted = len(self._answers) + sum(self.absent.values()) + self.wrong + self.lost
        for _ in range(self.asked - counted):
            self._count(lost("no answer when the run ended"))

    def compare_without_load(self, ask: AskBatch, on_wrong: Callable[[str, str], None]) -> None:
        """Compare every answer with the answer to its input without load.

        Args:
            ask: sends requests to the same service.
            on_wrong: called with the entry and the failure of each wrong answer.
        """
        results = self._without_load(ask)
        for answer in self._answers:
            without_load = results.get(answer.sample.input)
            if without_load is None:
                self.unchecked += 1
            elif too_close(without_load):
                self.too_close += 1
            elif why := disagreement(answer.result, without_load):
                checked = Checked("wrong", why)
                self._count(checked)
                on_wrong(answer.entry, str(checked.failure))
            else:
                self.right += 1
                if answer.sample.correct is not None:
                    agreed = (without_load.score or 0.0) >= RIGHT
                    self._labelled.append(agreed is answer.sample.correct)

    def summary(self) -> dict[str, Any]:
        """The figures as JSON data; latencies are of answers, in ms from when they were due."""
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

    def failures(self, max_absent: float) -> list[str]:
        """Why the run failed; empty if it passed.

        Args:
            max_absent: the share of requests that may end without a score, not counting tolerated
                statuses.
        """
        absent = sum(n for status, n in self.absent.items() if status not in self.tolerated)
        share = absent / self.asked if self.asked else 0.0
        reasons = {
            "no request was sent": not self.asked,
            f"{self.wrong} wrong": self.wrong,
            f"{self.lost} lost": self.lost,
            f"{self.unchecked} answers could not be checked": self.unchecked,
            f"{absent} absent, {share:.1%} of all requests": share > max_absent,
        }
        return [reason for reason, holds in reasons.items() if holds]

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

    def _without_load(self, ask: AskBatch) -> dict[int, ScoreResult]:
        bodies = {a.sample.input: _uncached(a.sample.body) for a in self._answers}
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
    """Statuses that a shape provokes: in a spike the service is meant to shed load."""
    return frozenset([Status.OVERLOADED]) if shape == "spike" else frozenset()


def _uncached(body: Body) -> Body:
    return {**body, "options": {"cache": False}}
