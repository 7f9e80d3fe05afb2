"""The base of transports that stand in for a service."""

from collections.abc import Sequence
from typing import Any

from reward_serve.client.transport import ServiceTransport
from reward_serve.routing.dispatch import Deliver


class FakeTransport(ServiceTransport):
    """Answers as a test says, by overriding ``ascore_batch`` or ``ascore_group``."""

    name = "the reward service"

    def __init__(self) -> None: ...

    async def ascore_each(self, requests: Sequence[dict[str, Any]], deliver: Deliver) -> None:
        deliver([*enumerate(await self.ascore_batch(requests))])

    async def _score(self, *call: Any) -> None:
        raise NotImplementedError

    async def _answer(self, *call: Any) -> Any:
        raise NotImplementedError
