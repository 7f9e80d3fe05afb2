"""Check replies against their requests, and count them.

``wrong``: another id or metadata, a batch of another size or order, missing or unknown keys, a
score that is no label's value, or one that does not fit its status or HTTP status code. ``lost``:
no ``status``, or later than the deadline plus ``GRACE_S``. ``absent``: a status other than ``ok``.
``abstained``: no score by ``judge.min_probability``, which is the judge's answer and no fault.

After the load every input is sent again without load, bypassing the service's cache, and each
answer under load must agree. This happens after the load because the engine caches prefixes: had it
seen the inputs before, the load would be lighter than real rollouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from loadtests.load.corpus import Body, Sample
from reward_serve.schema import ScoreResult, Status, describe_errors
from reward_serve_lab.evaluation.bulk import RIGHT, percentile

GRACE_S = 5.0
"""Seconds after its deadline at which a reply counts as lost, as the service's clients wait."""
MARGIN = 0.02
"""Margin of probability within which the contract allows another label."""

_VALUES = (0.0, 1.0)  # the corpus has right and wrong answers only
_BATCH = 16
_ATTEMPTS = 3
_REASONS = 20

AskBatch = Callable[[Sequence[Body]], Sequence[ScoreResult | None]]
"""Sends a batch; None for a request without an answer."""


@dataclass(frozen=True)
class Checked:
    """A checked reply, or a missing one.

    Attributes:
        outcome: the check's outcome.
        why: what is wrong, why it is lost, or the status; empty for an answer.
        result: the result, if answered.
    """

    outcome: Literal["answered", "abstained", "absent", "wrong", "lost"]
    why: str = ""
    result: ScoreResult | None = None

    @property
    def failure(self) -> str | None:
        """Its name in locust's table of failures; None for an answer and an abstention."""
        return None if self.outcome in ("answered", "abstained") else f"{self.outcome}: {self.why}"


def check(sample: Sample, reply: Any, code: int | None = None) -> Checked:
    """Check the reply to one sample.

    Args:
        sample: the request.
        reply: the decoded JSON.
        code: the HTTP status code, for a single request over HTTP.
    """
    if not isinstance(reply, dict) or "status" not in reply:
        return Checked("lost", f"untyped reply, HTTP {code}")
    result = dict(reply)
    if code not in (None, 200):
        result.pop("detail", None)
    if odd := sorted(
        (result.keys() ^ ScoreResult.model_fields.keys()) - {"components", "critique"}
    ):
        return Checked("wrong", f"keys missing or unknown: {', '.join(odd)}")
    for key in ("id", "metadata"):
        if result[key] != sample.body[key]:
            return Checked("wrong", f"another request's {key}")
    try:
        parsed = ScoreResult.model_validate(result)
    except ValidationError as error:
        return Checked("wrong", f"not a result: {describe_errors(error)}")
    if code is not None and code != parsed.status.http_code:
        return Checked("wrong", f"HTTP {code} with status {parsed.status.value}")
    if _abstained(parsed):
        return Checked("abstained")
    if parsed.status is not Status.OK:
        return Checked("absent", parsed.status.value)
    if parsed.score not in _VALUES:
        return Checked("wrong", "the score is no label's value")
    return Checked("answered", result=parsed)


def check_batch(samples: Sequence[Sample], reply: Any, code: int) -> list[Checked]:
    """Check the reply to a batch, one entry per sample."""
    results = reply.get("results") if isinstance(reply, dict) else None
    if code != 200 or not isinstance(results, list):
        return [Checked("lost", f"untyped reply, HTTP {code}")] * len(samples)
    if len(results) != len(samples):
        wrong = Checked("wrong", f"{len(results)} results for {len(samples)} requests")
        return [wrong] * len(samples)
    return [check(sample, result) for sample, result in zip(samples, results, strict=True)]


def _abstained(result: ScoreResult) -> bool:
    return result.status is Status.UNPARSEABLE and result.probabilities is not None


def too_close(without_load: ScoreResult) -> bool:
    """Whether either label is allowed: the likeliest two are within the margin, or it abstained."""
    if _abstained(without_load):
        return True
    likeliest = sorted((without_load.probabilities or {}).values())[-2:]
    return len(likeliest) == 2 and likeliest[1] - 0.5 < MARGIN


@dataclass
class Outcomes:
    """Counts the outcomes of a run.

    Attributes:
        tolerated: statuses that do not fail the run.
        counts: by outcome, and of the answers: ``right``, ``too_close`` or ``unchecked``.
        absent: by status.
    """

    tolerated: frozenset[Status] = frozenset()
    asked: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    absent: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    _answers: list[tuple[Sample, ScoreResult]] = field(default_factory=list)
    _labelled: list[bool] = field(default_factory=list)
    _waits_ms: list[float] = field(default_factory=list)
    _first_s: float | None = None
    _last_s: float = 0.0

    def ask(self, samples: Sequence[Sample], now_s: float) -> None:
        """Count samples as sent."""
        self.asked += len(samples)
        if self._first_s is None:
            self._first_s = now_s

    def record(self, sample: Sample, checked: Checked, wait_ms: float, now_s: float) -> None:
        """Record a reply, ``wait_ms`` after it was due."""
        self._count(checked)
        if checked.result is not None:
            self._answers.append((sample, checked.result))
            self._waits_ms.append(wait_ms)
            self._last_s = now_s
            self.sources[str(checked.result.source)] += 1

    def close(self) -> None:
        """End the load: samples without a reply are lost."""
        for _ in range(self.asked - self.counts.total() - self.absent.total()):
            self._count(Checked("lost", "no answer when the run ended"))

    def compare_without_load(self, ask: AskBatch, on_wrong: Callable[[str], None]) -> None:
        """Compare every answer with the answer to its input without load.

        Args:
            ask: sends requests to the same service.
            on_wrong: called with the failure of each wrong answer.
        """
        results = self._without_load(ask)
        for sample, answer in self._answers:
            without_load = results.get(sample.body["id"])
            if without_load is None:
                self.counts["unchecked"] += 1
            elif too_close(without_load):
                self.counts["too_close"] += 1
            elif answer.score != without_load.score:
                why = f"score {answer.score:g} under load, {without_load.score:g} without load"
                checked = Checked("wrong", why)
                self._count(checked)
                on_wrong(str(checked.failure))
            else:
                self.counts["right"] += 1
                if sample.correct is not None:
                    agreed = (without_load.score or 0.0) >= RIGHT
                    self._labelled.append(agreed is sample.correct)

    def summary(self) -> dict[str, Any]:
        """The figures as JSON data; latencies are of answers, in ms from when they were due."""
        seconds = self._last_s - (self._first_s or 0.0)
        labelled = self._labelled
        return {
            "asked": self.asked,
            "right": self.counts["right"],
            "abstained": self.counts["abstained"],
            "absent": dict(self.absent),
            **{name: self.counts[name] for name in ("wrong", "lost", "too_close", "unchecked")},
            **{f"p{percent}_ms": percentile(self._waits_ms, percent) for percent in (50, 95, 99)},
            "answers_per_s": len(self._answers) / seconds if seconds > 0 else None,
            "sources": dict(self.sources),
            "agreement_with_labels": sum(labelled) / len(labelled) if labelled else None,
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
        wrong, lost, unchecked = (self.counts[name] for name in ("wrong", "lost", "unchecked"))
        reasons = {
            "no request was sent": not self.asked,
            f"{wrong} wrong": wrong,
            f"{lost} lost": lost,
            f"{unchecked} answers could not be checked": unchecked,
            f"{absent} absent, {share:.1%} of all requests": share > max_absent,
        }
        return [reason for reason, holds in reasons.items() if holds]

    def _count(self, checked: Checked) -> None:
        if checked.outcome == "absent":
            self.absent[checked.why] += 1
        else:
            self.counts[checked.outcome] += 1
        if checked.failure:
            self.reasons[checked.failure] += 1

    def _without_load(self, ask: AskBatch) -> dict[str, ScoreResult]:
        bodies = [{**sample.body, "options": {"cache": False}} for sample, _ in self._answers]
        results: dict[str, ScoreResult] = {}
        for _ in range(_ATTEMPTS):
            missing = [body for body in bodies if body["id"] not in results]
            for first in range(0, len(missing), _BATCH):
                batch = missing[first : first + _BATCH]
                for body, result in zip(batch, ask(batch), strict=True):
                    if result is not None and (result.status is Status.OK or _abstained(result)):
                        results[body["id"]] = result
        return results
