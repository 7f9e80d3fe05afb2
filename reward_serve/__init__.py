"""Reward models for RL post-training, served by Ray Serve on frozen vLLM engines.

Importing is cheap: ``ray``, ``vllm`` and ``torch`` load only in the processes that use them.
"""

from reward_serve.client import HttpRewardClient, RewardClient, ServiceUnavailableError
from reward_serve.schema import ScoreRequest, ScoreResult, Status, Usage
from reward_serve.version import __version__

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
