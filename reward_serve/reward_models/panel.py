"""Kind ``panel``: several reward models are asked together, and their scores become one.

A member that fails has no voice. Where fewer than a quorum have a score, the panel has none.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from reward_serve.config.kinds import MemberConfig
from reward_serve.config.models import PanelModel
from reward_serve.explanation import Explanation
from reward_serve.reward_models.base import Verdict, summed_usage
from reward_serve.reward_models.findings import Findings
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure, retry_after_s

Ask = Callable[[dict[str, Any]], Awaitable[ScoreResult]]
Explain = Callable[[dict[str, Any]], Awaitable[Explanation]]

# Of failures that keep a panel from its quorum: what is worth a retry first.
_GRAVITY = (
    Status.OVERLOADED,
    Status.TIMEOUT,
    Status.ERROR,
    Status.TRUNCATED,
    Status.UNPARSEABLE,
    Status.INVALID,
)
_FOR_GOOD = frozenset([Status.INVALID, Status.UNPARSEABLE, Status.TRUNCATED])


class Panel:
    """Scores by what its members say.

    Args:
        config: of kind ``panel``.
        asks: for each member, in their order, what puts a request to it; never raises.
        explains: likewise, what has it explain one.
    """

    def __init__(
        self, config: PanelModel, asks: Sequence[Ask], explains: Sequence[Explain] = ()
    ) -> None:
        self._config = config.panel
        self._members = list(zip(_names(config.panel.members), config.panel.members, strict=True))
        self._asks = asks
        self._explains = explains
        self._quorum = config.panel.quorum or 1
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}
        """Requests on which all who had a score agreed, or not; ``failed`` without a quorum."""

    async def score(self, request: ScoreRequest) -> Verdict:
        """The members' vote, or mean."""
        bodies = self._bodies(request)
        results = await asyncio.gather(*map(_answer, self._asks, bodies))
        verdict = self._verdict(results)
        if verdict.score is None:
            self.counts["failed"] += 1
        else:
            disagreed = (verdict.details or {})["disagreement"]
            self.counts["disagreed" if disagreed else "agreed"] += 1
        return verdict

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The verdict on the members' explained results, with their explanations."""
        bodies = self._bodies(request)
        told = await asyncio.gather(*map(_explanation, self._explains, bodies))
        names = [name for name, _ in self._members]
        findings.members = dict(zip(names, told, strict=True))
        return self._verdict([explanation.result for explanation in told])

    def _bodies(self, request: ScoreRequest) -> list[dict[str, Any]]:
        """What each member is asked."""
        told = request.model_dump(mode="json", exclude_unset=True, exclude={"model", "id"})
        told["timeout_s"] = self._config.member_deadline * request.timeout_s
        return [
            {**told, "template": member.template} if member.template else told
            for _, member in self._members
        ]

    def _verdict(self, results: Sequence[ScoreResult]) -> Verdict:
        usage = summed_usage(results)
        fingerprint = self._fingerprint([result.fingerprint or "" for result in results])
        details: dict[str, Any] = {
            "members": {
                name: _shown(result)
                for (name, _), result in zip(self._members, results, strict=True)
            }
        }
        scores = [
            (result.score, member.weight)
            for (_, member), result in zip(self._members, results, strict=True)
            if result.score is not None
        ]
        if len(scores) < self._quorum:
            status, reason = self._without_quorum(results)
            pause_s = max(retry_after_s(result.details) for result in results)
            details |= {"retry_after_s": pause_s} if status is Status.OVERLOADED else {}
            return Verdict(
                status=status, reason=reason, details=details, usage=usage, fingerprint=fingerprint
            )
        score, label, disagreement = self._aggregate(scores)
        return Verdict(
            score=score,
            source="panel",
            label=label,
            details={**details, "disagreement": disagreement},
            usage=usage,
            fingerprint=fingerprint,
        )

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

    async def failure(self) -> str | None:
        """A member that is away comes back; each request tells for itself."""
        return None

    def close(self) -> None:
        """The members are not the panel's to end."""

    def _aggregate(self, scores: Sequence[tuple[float, float]]) -> tuple[float, str | None, float]:
        """Score, label and disagreement: the outvoted weight's share, or the scores' range."""
        whole = math.fsum(weight for _, weight in scores)
        if self._config.aggregate == "mean":
            told = [score for score, _ in scores]
            mean = math.fsum(score * weight for score, weight in scores) / whole
            return min(max(mean, min(told)), max(told)), None, max(told) - min(told)
        threshold = self._config.threshold
        share = math.fsum(weight for score, weight in scores if score >= threshold) / whole
        right = share > 0.5 and not math.isclose(share, 0.5)  # weights of 0.1 do not add up
        return float(right), "right" if right else "wrong", min(share, 1 - share)

    def _without_quorum(self, results: Sequence[ScoreResult]) -> tuple[Status, str]:
        """The failure to report: one that may pass where a quorum could come of it."""
        failed = Counter(result.status for result in results if result.score is None)
        lasting = sum(count for status, count in failed.items() if status in _FOR_GOOD)
        hopeless = len(results) - lasting < self._quorum
        known = [status for status in _GRAVITY if status in failed]
        status = next(s for s in known if not hopeless or s in _FOR_GOOD)
        why = "; ".join(
            f"{name}: {result.status.value}: {result.reason}"
            for (name, _), result in zip(self._members, results, strict=True)
            if result.score is None
        )
        scored = len(results) - failed.total()
        return (
            status,
            f"{scored} of {len(results)} members have a score, {self._quorum} must: {why}",
        )

    def _fingerprint(self, members: Sequence[str]) -> str:
        settings = self._config.model_dump_json(exclude={"member_deadline"})
        told = "\n".join([settings, *members])
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        names = ",".join(name for name, _ in self._members)
        return f"panel={self._config.aggregate};members={names};digest={digest}"


async def _answer(ask: Ask, body: dict[str, Any]) -> ScoreResult:
    """The member's result; a failure where it is silent for its part of the deadline."""
    try:
        async with asyncio.timeout(body["timeout_s"]):
            return await ask(body)
    except TimeoutError:
        return failure(Status.TIMEOUT, f"no answer within its {body['timeout_s']:.1f} s")


async def _explanation(explain: Explain, body: dict[str, Any]) -> Explanation:
    try:
        async with asyncio.timeout(body["timeout_s"]):
            return await explain(body)
    except TimeoutError:
        reason = f"no answer within its {body['timeout_s']:.1f} s"
        return Explanation(result=failure(Status.TIMEOUT, reason))


def _names(members: Sequence[MemberConfig]) -> list[str]:
    """Each member's name in results: its model's, with what tells it from its namesakes."""
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
