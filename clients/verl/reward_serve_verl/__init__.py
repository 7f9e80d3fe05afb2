"""A custom reward function for verl, scored by a ``reward_serve`` service.

    reward.custom_reward_function.path=pkg://reward_serve_verl
    reward.custom_reward_function.name=compute_score

``compute_score`` is a coroutine function; verl awaits it for each trajectory during the rollout.
``llm_judge_remote`` has the synchronous signatures and float results of the function it replaces.
``python -m reward_serve_verl.main`` is verl's entry point, preceded by a probe of the service.
"""

from reward_serve_verl.scoring import compute_score

__all__ = ["compute_score"]
