"""Kind ``panel``: combines the scores of several reward models.

Failed members are excluded. If fewer members than the quorum have a score, the panel has none.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from reward_serve.config.kinds import MemberConfig
from reward_serve.config.models import PanelModel
from reward_serve.explanation import Explanation
from reward_serve.reward_models.base import RewardModel, summed_usage
from reward_serve.reward_models.trace import Trace
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure, retry_after_s

Ask = Callable[[dict[str, Any], bool], Awaitable[Explanation]]
"""Sends a member a request and never raises; without the flag, the answer is only a result."""

# Statuses to report when a panel misses its quorum, retryable ones first.
_SEVERITY = (
    Status.OVERLOADED,
    Status.TIMEOUT,
    Status.ERROR,
    Status.TRUNCATED,
    Status.UNPARSEABLE,
    Status.INVALID,
)
_PERMANENT = frozenset([Status.INVALID, Status.UNPARSEABLE, Status.TRUNCATED])


class Panel(RewardModel):
    """Combines its members' scores.

    Args:
        config: a model of kind ``panel``.
        asks: one for each member, in order.
    """

    def __init__(self, config: PanelModel, asks: Sequence[Ask]) -> None:
        self._config = config.panel
        self._members = list(zip(_names(config.panel.members), config.panel.members, strict=True))
        self._asks = asks
        self._quorum = config.panel.quorum or 1
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}
        """Requests on which all scored members agreed or not; ``failed`` without a quorum."""

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score one request by the members' vote or mean; a trace has their explanations."""
        body = request.model_dump(mode="json", exclude_unset=True, exclude={"model", "id"})
        body["timeout_s"] = self._config.member_deadline * request.timeout_s
        bodies = [
            {**body, "template": member.template} if member.template else body
            for _, member in self._members
        ]
        explains = trace is not None
        answers = await asyncio.gather(
            *(_answer(ask, body, explains) for ask, body in zip(self._asks, bodies, strict=True))
        )
        result = self._result([answer.result for answer in answers])
        if trace is not None:
            names = [name for name, _ in self._members]
            trace.members = dict(zip(names, answers, strict=True))
        elif result.score is None:
            self.counts["failed"] += 1
        else:
            disagreed = (result.details or {})["disagreement"]
            self.counts["disagreed" if disagreed else "agreed"] += 1
        return result

    def _result(self, results: Sequence[ScoreResult]) -> ScoreResult:
        members = [
            (name, member.weight, result)
            for (name, member), result in zip(self._members, results, strict=True)
        ]
        details: dict[str, Any] = {"members": {name: _shown(r) for name, _, r in members}}
        about: dict[str, Any] = {
            "details": details,
            "usage": summed_usage(results),
            "fingerprint": self._fingerprint([result.fingerprint or "" for result in results]),
        }
        scores = [(r.score, weight) for _, weight, r in members if r.score is not None]
        if len(scores) < self._quorum:
            status = self._without_quorum(results)
            if status is Status.OVERLOADED:
                details["retry_after_s"] = max(retry_after_s(r.details) for r in results)
            why = "; ".join(
                f"{name}: {r.status.value}: {r.reason}" for name, _, r in members if r.score is None
            )
            reason = (
                f"{len(scores)} of {len(results)} members have a score, {self._quorum} are needed: "
                f"{why}"
            )
            return failure(status, reason, **about)
        score, label, details["disagreement"] = self._aggregate(scores)
        return ScoreResult(status=Status.OK, score=score, source="panel", label=label, **about)

    def describe(self) -> dict[str, Any]:
        """Kind, members and settings."""
        return {
            "kind": "panel",
            "members": [name for name, _ in self._members],
            "aggregate": self._config.aggregate,
            "quorum": self._quorum,
            "panel": dict(self.counts),
            "fingerprint": self._fingerprint([]),
        }

    def _aggregate(self, scores: Sequence[tuple[float, float]]) -> tuple[float, str | None, float]:
        """Score, label and disagreement: the outvoted fraction of weight, or the scores' range."""
        whole = math.fsum(weight for _, weight in scores)
        if self._config.aggregate == "mean":
            values = [score for score, _ in scores]
            mean = math.fsum(score * weight for score, weight in scores) / whole
            return min(max(mean, min(values)), max(values)), None, max(values) - min(values)
        threshold = self._config.threshold
        share = math.fsum(weight for score, weight in scores if score >= threshold) / whole
        right = share > 0.5 and not math.isclose(share, 0.5)  # weights of 0.1 do not add up
        return float(right), "right" if right else "wrong", min(share, 1 - share)

    def _without_quorum(self, results: Sequence[ScoreResult]) -> Status:
        """The failure to report: a retryable one if a retry could reach the quorum."""
        failed = {result.status for result in results if result.score is None}
        permanent = sum(result.status in _PERMANENT for result in results)
        hopeless = len(results) - permanent < self._quorum
        known = [status for status in _SEVERITY if status in failed]
        return next(s for s in known if not hopeless or s in _PERMANENT)

    def _fingerprint(self, members: Sequence[str]) -> str:
        settings = self._config.model_dump_json(exclude={"member_deadline"})
        text = "\n".join([settings, *members])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        names = ",".join(name for name, _ in self._members)
        return f"panel={self._config.aggregate};members={names};digest={digest}"


async def _answer(ask: Ask, body: dict[str, Any], explains: bool) -> Explanation:
    """The member's answer, or a timeout if it exceeds its deadline."""
    try:
        async with asyncio.timeout(body["timeout_s"]):
            return await ask(body, explains)
    except TimeoutError:
        reason = f"no answer within its {body['timeout_s']:.1f} s"
        return Explanation(result=failure(Status.TIMEOUT, reason))


def _names(members: Sequence[MemberConfig]) -> list[str]:
    """Each member's unique name in results: application, model and template."""
    names = []
    for member in members:
        name = f"{member.application}/{member.model}" if member.application else member.model
        names.append(f"{name}:{member.template}" if member.template else name)
    return names


def _shown(result: ScoreResult) -> dict[str, Any]:
    return {
        "status": result.status.value,
        "score": result.score,
        "source": result.source,
        "label": result.label,
        "fingerprint": result.fingerprint,
    }
