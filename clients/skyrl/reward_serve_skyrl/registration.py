"""Registers the environment with skyrl_gym, whose registry is per process."""

from __future__ import annotations

from skyrl_gym.envs.registration import register, registry

JUDGE = "gsm8k_judge"


def register_envs() -> None:
    """Register ``gsm8k_judge`` in this process, unless it is registered.

    Call it in the process that runs the generator, inside ``skyrl_entrypoint``.
    """
    if JUDGE not in registry:
        register(id=JUDGE, entry_point="reward_serve_skyrl.envs:GSM8kJudgeEnv")
