"""The base of transports that stand in for a service."""

from __future__ import annotations

from typing import Any

from reward_serve.explanation import Explanation
from reward_serve.schema import GroupResult


class FakeTransport:
    """Scores as a test says, explains nothing and judges no groups."""

    name = "the reward service"

    async def aexplain(self, request: dict[str, Any]) -> Explanation:
        raise NotImplementedError

    async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
        raise NotImplementedError
