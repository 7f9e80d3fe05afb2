"""Reward models for RL post-training, served by Ray Serve on frozen vLLM engines.

Import is light: ``ray``, ``vllm`` and ``torch`` load only in the processes that run them.
"""

from reward_serve.client.handle import RewardClient
from reward_serve.client.http import HttpRewardClient
from reward_serve.client.transport import ServiceUnavailableError
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
