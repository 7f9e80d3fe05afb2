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
from reward_serve.reward_models.base import Verdict, summed_usage
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure, retry_after_s

Ask = Callable[[dict[str, Any]], Awaitable[ScoreResult]]

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
    """

    def __init__(self, config: PanelModel, asks: Sequence[Ask]) -> None:
        self._config = config.panel
        self._members = list(zip(_names(config.panel.members), config.panel.members, strict=True))
        self._asks = asks
        self._quorum = config.panel.quorum or 1
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}
        """Requests on which all who had a score agreed, or not; ``failed`` without a quorum."""

    async def score(self, request: ScoreRequest) -> Verdict:
        """The members' vote, or mean."""
        told = request.model_dump(mode="json", exclude_unset=True, exclude={"model", "id"})
        told["timeout_s"] = self._config.member_deadline * request.timeout_s
        results = await asyncio.gather(
            *(
                _answer(ask, {**told, "template": member.template} if member.template else told)
                for ask, (_, member) in zip(self._asks, self._members, strict=True)
            )
        )
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
            self.counts["failed"] += 1
            status, reason = self._without_quorum(results)
            pause_s = max(retry_after_s(result.details) for result in results)
            details |= {"retry_after_s": pause_s} if status is Status.OVERLOADED else {}
            return Verdict(
                status=status, reason=reason, details=details, usage=usage, fingerprint=fingerprint
            )
        score, label, disagreement = self._aggregate(scores)
        self.counts["disagreed" if disagreement else "agreed"] += 1
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
