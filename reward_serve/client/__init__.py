"""Clients of the service: by handle, over HTTP, and the one that trainers' adapters share.

>>> client = connect(url="http://127.0.0.1:8000", on_failure="rule")  # doctest: +SKIP
>>> client.score({"response": "#### 18", "reference": "18"}).score  # doctest: +SKIP
1.0
"""

from typing import TYPE_CHECKING, Any

from reward_serve.client.fallback import ScoringError
from reward_serve.client.handle import RewardClient
from reward_serve.client.metrics import metrics_of
from reward_serve.client.shared import Client, connect
from reward_serve.client.transport import NotConnectedError, ServiceUnavailableError

if TYPE_CHECKING:
    from reward_serve.client.http import HttpRewardClient
else:

    def __getattr__(name: str) -> Any:
        # httpx takes a quarter of what importing the library does; callers by handle need none.
        if name == "HttpRewardClient":
            from reward_serve.client.http import HttpRewardClient

            return HttpRewardClient
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Client",
    "HttpRewardClient",
    "NotConnectedError",
    "RewardClient",
    "ScoringError",
    "ServiceUnavailableError",
    "connect",
    "metrics_of",
]
