"""A GSM8K environment for SkyRL, rewarded by a ``reward_serve`` service."""

from reward_serve_skyrl.envs import GSM8kJudgeEnv, register_envs

__all__ = ["GSM8kJudgeEnv", "register_envs"]
