"""verl 0.9.1's agent loop worker: its generation from a list, all else verl's own."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import transfer_queue as tq
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ


def worker_of(ids: Any, reward: RewardLoopWorker) -> Any:
    """verl's agent loop worker, its generation from a list."""

    class Worker(AgentLoopWorkerTQ.__ray_metadata__.modified_class):  # type: ignore[misc]
        def __init__(self) -> None:
            self.config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"n": 0}}})
            self.processor, self.distillation_enabled = None, False
            self.mm_processor_kwargs: dict[str, Any] = {}
            score = SimpleNamespace(remote=reward.compute_score)
            self.reward_loop_worker_handles = [SimpleNamespace(compute_score=score)]

        async def run(self, groups: dict[str, Sequence[str]]) -> None:
            for uid, responses in groups.items():
                tag = {"is_prompt": True, "status": "pending", "global_steps": 1}
                await tq.async_kv_put(key=uid, partition_id="train", tag=tag)
                prompt = {"uid": uid, "responses": responses, "__rollout_n__": len(responses)}
                await self._run_prompt(prompt, {}, trajectory={"validate": False})

        async def _run_agent_loop(
            self, sampling_params: Any, *, session_id: int, uid: str, responses: Any, **_: Any
        ) -> None:
            tokens = ids.encode(responses[session_id])
            output = AgentLoopOutput(
                prompt_ids=[1, 2],
                response_ids=tokens,
                response_mask=[1] * len(tokens),
                response_logprobs=[-1.0] * len(tokens),
                num_turns=2,
                metrics=AgentLoopMetrics(),
                extra_fields={"min_global_steps": 1, "max_global_steps": 1},
            )
            row = {
                "data_source": "gsm8k",
                "reward_model": {"style": "rule", "ground_truth": "18"},
                "extra_info": {"index": 0, "question": "How many?"},
            }
            output.extra_fields["reward_extra_info"] = {}
            await self._agent_loop_postprocess(
                output, False, uid=uid, session_id=session_id, global_steps=1, **row
            )

    return Worker()
