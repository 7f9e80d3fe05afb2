"""verl's custom reward function, answered by a ``reward_serve`` service.

    reward.custom_reward_function.path=pkg://reward_serve_verl
    reward.custom_reward_function.name=compute_score

``compute_score`` is a coroutine function, which verl awaits for each trajectory beside the rollout.
"""

from reward_serve_verl.scoring import compute_score, compute_score_batched, compute_score_sync

__all__ = ["compute_score", "compute_score_batched", "compute_score_sync"]
