"""Reward models for RL post-training, served by Ray Serve on frozen vLLM engines.

Importing is cheap: ``ray``, ``vllm`` and ``torch`` load only in the processes that use them.
"""

from typing import TYPE_CHECKING, Any

from reward_serve import client
from reward_serve.client import RewardClient, ServiceUnavailableError
from reward_serve.schema import ScoreRequest, ScoreResult, Status, Usage
from reward_serve.version import __version__

if TYPE_CHECKING:
    from reward_serve.client.http import HttpRewardClient
else:

    def __getattr__(name: str) -> Any:
        if name == "HttpRewardClient":
            return client.HttpRewardClient
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "HttpRewardClient",
    "RewardClient",
    "ScoreRequest",
    "ScoreResult",
    "ServiceUnavailableError",
    "Status",
    "Usage",
    "__version__",
]
