"""The service's client, by handle and over HTTP.

>>> client = connect(url="http://127.0.0.1:8000", on_failure="rule")  # doctest: +SKIP
>>> client.score({"response": "#### 18", "reference": "18"}).score  # doctest: +SKIP
1.0
"""

from reward_serve.client.client import Client, HttpRewardClient, RewardClient, connect
from reward_serve.client.outcomes import ScoringError, metrics_of
from reward_serve.client.transport import NotConnectedError, ServiceUnavailableError

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
