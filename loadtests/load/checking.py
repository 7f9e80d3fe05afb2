"""Whether a reply answers its request.

A reply is ``wrong`` when it is not its request's: another id or metadata, a batch with another
number of results or in another order, keys that the contract does not name or that are missing, a
score that is no label's value, or one that does not fit its status or HTTP status code. It is
``lost`` when it carries no ``status`` at all, or comes after its deadline and a grace. A status
other than ``ok`` is an ``absent`` score, which is neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from loadtests.load.corpus import Sample
from reward_serve.http.contract import http_status
from reward_serve.schema import ScoreResult, Status, describe_errors

GRACE_S = 5.0
"""Seconds after its deadline by which a reply is lost; as long as the service's clients wait."""
MARGIN = 0.02
"""Of probability: the contract promises the same label outside of it."""

_VALUES = (0.0, 1.0)  # of a right or wrong answer, which is what the corpus holds

Outcome = Literal["answered", "absent", "wrong", "lost"]


@dataclass(frozen=True)
class Checked:
    """A reply, or the want of one.

    Attributes:
        outcome: what it is.
        why: what is wrong, why it is lost, or the status; empty for an answer.
        result: of an answer.
    """

    outcome: Outcome
    why: str = ""
    result: ScoreResult | None = None

    @property
    def failure(self) -> str | None:
        """The name it has in locust's table of failures."""
        return None if self.outcome == "answered" else f"{self.outcome}: {self.why}"


def lost(why: str) -> Checked:
    """No answer came."""
    return Checked("lost", why)


def check(sample: Sample, reply: Any, code: int | None = None) -> Checked:
    """What a reply is to its sample.

    Args:
        sample: what was asked.
        reply: the decoded JSON.
        code: HTTP's status of a single score's reply, where it came by HTTP.
    """
    if not isinstance(reply, dict) or "status" not in reply:
        return lost("untyped reply" if code in (None, 200) else f"untyped reply, HTTP {code}")
    result = dict(reply)
    if code not in (None, 200):
        result.pop("detail", None)
    if result.keys() != ScoreResult.model_fields.keys():
        odd = sorted(result.keys() ^ ScoreResult.model_fields.keys())
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
        return Checked("wrong", "a score that is no label's value")
    return Checked("answered", result=parsed)


def check_batch(samples: Sequence[Sample], reply: Any, code: int) -> list[Checked]:
    """What a batch's reply is to each of its samples, by their order."""
    results = reply.get("results") if isinstance(reply, dict) else None
    if code != 200 or not isinstance(results, list):
        return [lost(f"untyped reply, HTTP {code}")] * len(samples)
    if len(results) != len(samples):
        wrong = Checked("wrong", f"{len(results)} results for {len(samples)} requests")
        return [wrong] * len(samples)
    return [check(sample, result) for sample, result in zip(samples, results, strict=True)]


def in_time(checked: Checked, waited_s: float, timeout_s: float) -> Checked:
    """The reply as it is, or lost when it came too late."""
    if checked.outcome != "lost" and waited_s > timeout_s + GRACE_S:
        return lost("late")
    return checked


def disagreement(loaded: ScoreResult, unhurried: ScoreResult) -> str | None:
    """How an answer under load differs from the one for the same input in peace."""
    if loaded.score == unhurried.score:
        return None
    return f"score {loaded.score:g} under load, {unhurried.score:g} in peace"


def too_close(unhurried: ScoreResult) -> bool:
    """Whether the two likeliest labels are within the margin of each other: not to be compared."""
    likeliest = sorted((unhurried.probabilities or {}).values())[-2:]
    return len(likeliest) == 2 and likeliest[1] - 0.5 < MARGIN
