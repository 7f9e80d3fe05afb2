"""The base of transports that stand in for a service."""

from __future__ import annotations

from typing import Any

from reward_serve.client.transport import ServiceTransport


class FakeTransport(ServiceTransport):
    """Answers as a test says, by overriding ``ascore_batch`` or ``ascore_group``."""

    name = "the reward service"

    def __init__(self) -> None: ...

    async def _answer(self, *call: Any) -> Any:
        raise NotImplementedError
