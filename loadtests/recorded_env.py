"""The judge's environment with the metrics of every episode; SkyRL keeps only their means."""

from __future__ import annotations

from skyrl_gym.envs.base_text_env import BaseTextEnvStepOutput

from reward_serve_skyrl import GSM8kJudgeEnv

SEEN: list[dict[str, float]] = []


class RecordedJudgeEnv(GSM8kJudgeEnv):
    """``GSM8kJudgeEnv``; ``SEEN`` holds the metrics of every episode so far."""

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Score the response and end the episode."""
        output = super().step(action)
        SEEN.append(self.get_metrics())
        return output
