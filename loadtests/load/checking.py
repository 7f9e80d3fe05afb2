"""Check a reply against its request.

``wrong``: another id or metadata, a batch of another size or order, missing or unknown keys, a
score that is no label's value, or one that does not fit its status or HTTP status code. ``lost``:
no ``status``, or later than the deadline plus ``GRACE_S``. ``absent``: a status other than ``ok``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from loadtests.load.corpus import Sample
from reward_serve.http.api import http_status
from reward_serve.schema import ScoreResult, Status, describe_errors

GRACE_S = 5.0
"""Seconds after its deadline at which a reply counts as lost, as the service's clients wait."""
MARGIN = 0.02
"""Margin of probability within which the contract allows another label."""

_VALUES = (0.0, 1.0)  # the corpus has right and wrong answers only

Outcome = Literal["answered", "absent", "wrong", "lost"]


@dataclass(frozen=True)
class Checked:
    """A checked reply, or a missing one.

    Attributes:
        outcome: the check's outcome.
        why: what is wrong, why it is lost, or the status; empty for an answer.
        result: the result, if answered.
    """

    outcome: Outcome
    why: str = ""
    result: ScoreResult | None = None

    @property
    def failure(self) -> str | None:
        """Its name in locust's table of failures; None for an answer."""
        return None if self.outcome == "answered" else f"{self.outcome}: {self.why}"


def lost(why: str) -> Checked:
    """A missing reply."""
    return Checked("lost", why)


def check(sample: Sample, reply: Any, code: int | None = None) -> Checked:
    """Check the reply to one sample.

    Args:
        sample: the request.
        reply: the decoded JSON.
        code: the HTTP status code, for a single request over HTTP.
    """
    if not isinstance(reply, dict) or "status" not in reply:
        return lost("untyped reply" if code in (None, 200) else f"untyped reply, HTTP {code}")
    result = dict(reply)
    if code not in (None, 200):
        result.pop("detail", None)
    if odd := sorted((result.keys() ^ ScoreResult.model_fields.keys()) - {"components"}):
        return Checked("wrong", f"keys missing or unknown: {', '.join(odd)}")
    for key in ("id", "metadata"):
        if result[key] != sample.body[key]:
            return Checked("wrong", f"another request's {key}")
    try:
        parsed = ScoreResult.model_validate(result)
    except ValidationError as error:
        return Checked("wrong", f"not a result: {describe_errors(error)}")
    if code is not None and code != http_status(parsed.status):
        return Checked("wrong", f"HTTP {code} with status {parsed.status.value}")
    if parsed.status is not Status.OK:
        return Checked("absent", parsed.status.value)
    if parsed.score not in _VALUES:
        return Checked("wrong", "the score is no label's value")
    return Checked("answered", result=parsed)


def check_batch(samples: Sequence[Sample], reply: Any, code: int) -> list[Checked]:
    """Check the reply to a batch, one entry per sample."""
    results = reply.get("results") if isinstance(reply, dict) else None
    if code != 200 or not isinstance(results, list):
        return [lost(f"untyped reply, HTTP {code}")] * len(samples)
    if len(results) != len(samples):
        wrong = Checked("wrong", f"{len(results)} results for {len(samples)} requests")
        return [wrong] * len(samples)
    return [check(sample, result) for sample, result in zip(samples, results, strict=True)]


def within_deadline(checked: Checked, waited_s: float, timeout_s: float) -> Checked:
    """The reply, or lost if it came too late."""
    if checked.outcome != "lost" and waited_s > timeout_s + GRACE_S:
        return lost("late")
    return checked


def disagreement(under_load: ScoreResult, without_load: ScoreResult) -> str | None:
    """How the answers to one input under load and without load differ; None if they agree."""
    if under_load.score == without_load.score:
        return None
    return f"score {under_load.score:g} under load, {without_load.score:g} without load"


def too_close(without_load: ScoreResult) -> bool:
    """Whether the two likeliest labels are within the margin, so that either is allowed."""
    likeliest = sorted((without_load.probabilities or {}).values())[-2:]
    return len(likeliest) == 2 and likeliest[1] - 0.5 < MARGIN
