"""A deployment around a ``Scorer`` whose reward model or engine a load test makes up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from reward_serve.replica.scoring import Scorer


class ScorerReplica:
    """The methods of ``RewardReplica`` with which clients score.

    Args:
        scorer: scores the items.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    async def score_batch(
        self, requests: list[dict[str, Any]], batch: str | None = None
    ) -> list[dict[str, Any]]:
        """A result for each request, in order."""
        return await self._scorer.score_batch(requests, batch)

    async def score_stream(
        self, requests: list[dict[str, Any]], batch: str | None = None
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Chunks of results as they finish."""
        async for chunk in self._scorer.score_stream(requests, batch):
            yield chunk
