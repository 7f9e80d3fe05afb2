"""GSM8K environments for SkyRL whose reward a ``reward_serve`` service decides."""

from reward_serve_skyrl.envs import GSM8kJudgeEnv, GSM8kRuleEnv
from reward_serve_skyrl.registration import register_envs

__all__ = ["GSM8kJudgeEnv", "GSM8kRuleEnv", "register_envs"]
