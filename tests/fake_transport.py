"""The base of transports that stand in for a service."""

from __future__ import annotations

from typing import Any

from reward_serve.explanation import Explanation


class FakeTransport:
    """Scores as a test says, and explains nothing."""

    name = "the reward service"

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        raise NotImplementedError
