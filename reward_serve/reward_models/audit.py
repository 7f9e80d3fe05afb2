"""Rules and model asked the same, for a share of the requests.

A policy that learns to fool one of the two is seen as a growing share of disagreements, while the
reward still looks well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from reward_serve.reward_models.base import Verdict
from reward_serve.reward_models.sampling import chosen, request_hash
from reward_serve.schema import ScoreRequest, Status
from reward_serve.verifiers import Verification

logger = logging.getLogger(__name__)

_AT_ONCE = 4
_SCORES = {"right": 1.0, "wrong": 0.0}


class Audit:
    """Compares, off the path of the request, and counts.

    Args:
        rate: the share of the requests; which ones is told by their hash.
    """

    def __init__(self, rate: float) -> None:
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}
        """Comparisons so far; ``failed`` where the model gave no verdict."""
        self._rate = rate
        self._under_way: set[asyncio.Task[None]] = set()

    def wants(self, request: ScoreRequest) -> bool:
        """Whether the request is of the sample, and there is room for it."""
        if not self._rate or len(self._under_way) >= _AT_ONCE:
            return False
        return chosen(request_hash(request), self._rate)

    def ask_model(
        self, request: ScoreRequest, rule: Verification, ask: Callable[[], Awaitable[Verdict]]
    ) -> None:
        """A rule has decided: put it to the model too, in the background."""

        async def asked() -> None:
            try:
                self.compare(request, rule, await ask())
            except Exception as error:
                self.counts["failed"] += 1
                logger.debug("an audit failed: %r", error)

        task = asyncio.ensure_future(asked())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def compare(self, request: ScoreRequest, rule: Verification, verdict: Verdict) -> None:
        """The model has judged; what did the rules say?"""
        if rule.outcome == "abstain":
            return
        if verdict.status is not Status.OK or verdict.score is None:
            self.counts["failed"] += 1
            return
        if (verdict.score >= 0.5) == (_SCORES[rule.outcome] >= 0.5):
            self.counts["agreed"] += 1
            return
        self.counts["disagreed"] += 1
        disagreed = self.counts["disagreed"]
        if disagreed & (disagreed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
            logger.warning(
                "rules and model disagree on %d of %d requests so far; this one, %s: rule %s "
                "says %s, the model %.2f",
                disagreed, sum(self.counts.values()), request_hash(request),
                rule.rule, rule.outcome, verdict.score,
            )  # fmt: skip
