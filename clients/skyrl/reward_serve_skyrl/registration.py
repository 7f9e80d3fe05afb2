"""Makes the environments known to skyrl_gym, whose registry is each process's own."""

from __future__ import annotations

from skyrl_gym.envs.registration import register, registry

JUDGE, RULE = "gsm8k_judge", "gsm8k_rule"


def register_envs() -> None:
    """Register ``gsm8k_judge`` and ``gsm8k_rule``, once a process.

    Call it in the process that runs the generator: inside ``skyrl_entrypoint``.
    """
    for name, kind in ((JUDGE, "GSM8kJudgeEnv"), (RULE, "GSM8kRuleEnv")):
        if name not in registry:
            register(id=name, entry_point=f"reward_serve_skyrl.envs:{kind}")
