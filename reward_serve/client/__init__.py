"""The service's client, by handle and over HTTP.

>>> client = connect(url="http://127.0.0.1:8000", on_failure="rule")  # doctest: +SKIP
>>> client.score({"response": "#### 18", "reference": "18"}).score  # doctest: +SKIP
1.0
"""

from typing import TYPE_CHECKING, Any

from reward_serve.client.client import Client
from reward_serve.client.connecting import connect
from reward_serve.client.handle import RewardClient
from reward_serve.client.outcomes import ScoringError, metrics_of
from reward_serve.client.transport import NotConnectedError, ServiceUnavailableError

if TYPE_CHECKING:
    from reward_serve.client.http import HttpRewardClient
else:

    def __getattr__(name: str) -> Any:
        # httpx takes a quarter of the library's import time, and calls by handle do not need it.
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
