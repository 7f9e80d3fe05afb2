"""Compares rules and model on a sample of a judge's requests, in the background.

If a policy learns to exploit one of the two, the disagreements increase while the reward still
looks fine.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from reward_serve.schema import ScoreRequest, ScoreResult
from reward_serve_answers import Grade
from reward_serve_answers.values import RIGHT

logger = logging.getLogger(__name__)

_AT_ONCE = 4
_HASHED_CHARACTERS = 4096

Both = tuple[Grade | None, ScoreResult]
"""The rules' grade, None without rules, and the model's result."""


class Audit:
    """Counts how often a judge's rules and its model agree.

    Args:
        rate: fraction of requests to compare, selected by their hash.
    """

    def __init__(self, rate: float) -> None:
        self.counts = {"agreed": 0, "disagreed": 0, "failed": 0}
        """Number of comparisons by outcome; ``failed`` if the model gave no verdict."""
        self._rate = rate
        self._running: set[asyncio.Task[None]] = set()

    def wants(self, request: ScoreRequest) -> bool:
        """Whether to compare this request; False while ``_AT_ONCE`` comparisons are running."""
        if not self._rate or len(self._running) >= _AT_ONCE:
            return False
        return chosen(request_hash(request), self._rate)

    def compare(self, request: ScoreRequest, both: Callable[[], Awaitable[Both]]) -> None:
        """Compare the rules' grade with the model's result, in the background."""
        task = asyncio.ensure_future(self._compare(request, both))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _compare(self, request: ScoreRequest, both: Callable[[], Awaitable[Both]]) -> None:
        try:
            grade, result = await both()
        except Exception as error:
            self.counts["failed"] += 1
            logger.debug("an audit failed: %r", error)
            return
        if grade is None or grade.score is None:
            return
        if result.score is None:
            self.counts["failed"] += 1
        elif (result.score >= RIGHT / 2) == (grade.score == RIGHT):
            self.counts["agreed"] += 1
        else:
            self.counts["disagreed"] += 1
            self._warn(request, grade, result.score)

    def _warn(self, request: ScoreRequest, grade: Grade, score: float) -> None:
        disagreed = self.counts["disagreed"]
        if disagreed & (disagreed - 1) == 0:  # the 1st, 2nd, 4th, 8th...
            logger.warning(
                "rules and model disagree on %d of %d requests so far; request %s: rule %s "
                "says %s, the model %.2f",
                disagreed, sum(self.counts.values()), request_hash(request),
                grade.rule, grade.outcome, score,
            )  # fmt: skip


def request_hash(request: object) -> str:
    """A hash of response, reference, question and template, as 16 hex digits.

    Only the length and the end of a long text are hashed.
    """
    fields = request if isinstance(request, Mapping) else getattr(request, "__dict__", {})
    digest = hashlib.sha256()
    for name in ("response", "reference", "question", "template"):
        value = fields.get(name)
        text = value if isinstance(value, str) else _shown(value)
        digest.update(f"{len(text)}:{text[-_HASHED_CHARACTERS:]}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # of an invalid request: an integer of 5,000 digits has no repr
        return type(value).__name__


def chosen(request_hash: str, rate: float) -> bool:
    """Whether a request belongs to a sample; the same in every replica and at any time."""
    return int(request_hash[:8], 16) < rate * 2**32
