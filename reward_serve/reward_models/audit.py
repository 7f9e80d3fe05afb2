"""Compares rules and model on a sample of requests, in the background.

If a policy learns to exploit one of the two, the disagreements increase while the reward still
looks fine.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from reward_serve.reward_models.base import Verdict
from reward_serve.reward_models.chat import Chat
from reward_serve.reward_models.findings import Findings
from reward_serve.reward_models.judge import Judge
from reward_serve.reward_models.sampling import chosen, request_hash
from reward_serve.rules.grade import RIGHT, Grade
from reward_serve.schema import ScoreRequest, Status

logger = logging.getLogger(__name__)

_AT_ONCE = 4


class AuditedJudge:
    """Wraps a judge and compares its verdicts with the alternative: its rules, or its model.

    Args:
        judge: the judge.
        rate: fraction of requests to compare, selected by their hash.
    """

    def __init__(self, judge: Judge, rate: float) -> None:
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}
        """Number of comparisons by outcome; ``failed`` if the model gave no verdict."""
        self._judge = judge
        self._rate = rate
        self._running: set[asyncio.Task[None]] = set()

    @property
    def chat(self) -> Chat:
        """See the judge."""
        return self._judge.chat

    async def score(self, request: ScoreRequest) -> Verdict:
        """The judge's verdict."""
        verdict = await self._judge.score(request)
        if self._wants(request):
            task = asyncio.ensure_future(self._audit(request, verdict))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return verdict

    async def explain(self, request: ScoreRequest, findings: Findings) -> Verdict:
        """The judge's own; not audited."""
        return await self._judge.explain(request, findings)

    def describe(self) -> dict[str, Any]:
        """The judge's description, with the number of comparisons by outcome."""
        return {**self._judge.describe(), "audit": dict(self.counts)}

    async def failure(self) -> str | None:
        """Why the engine cannot serve any more; None while it can."""
        return await self._judge.failure()

    def close(self) -> None:
        """Stop the engine."""
        self._judge.close()

    def _wants(self, request: ScoreRequest) -> bool:
        """Whether to compare this request; False while ``_AT_ONCE`` comparisons are running."""
        if not self._rate or len(self._running) >= _AT_ONCE:
            return False
        return chosen(request_hash(request), self._rate)

    async def _audit(self, request: ScoreRequest, verdict: Verdict) -> None:
        rule = await self._judge.by_rule(request)
        if rule is None or rule.score is None:
            return
        try:
            if verdict.source == "rule":
                verdict = await self._judge.by_model(request)
        except Exception as error:
            self.counts["failed"] += 1
            logger.debug("an audit failed: %r", error)
            return
        self._compare(request, rule, verdict)

    def _compare(self, request: ScoreRequest, rule: Grade, verdict: Verdict) -> None:
        if verdict.status is not Status.OK or verdict.score is None:
            self.counts["failed"] += 1
            return
        if (verdict.score >= 0.5) == (rule.score == RIGHT):
            self.counts["agreed"] += 1
            return
        self.counts["disagreed"] += 1
        disagreed = self.counts["disagreed"]
        if disagreed & (disagreed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
            logger.warning(
                "rules and model disagree on %d of %d requests so far; request %s: rule %s "
                "says %s, the model %.2f",
                disagreed, sum(self.counts.values()), request_hash(request),
                rule.rule, rule.outcome, verdict.score,
            )  # fmt: skip
