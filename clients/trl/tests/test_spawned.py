"""TRL's asynchronous rollout worker, which pickles reward functions for a spawned process."""

from __future__ import annotations

import asyncio
import multiprocessing
from types import SimpleNamespace
from typing import Any

from reward_serve_trl import judge_reward, judge_rewards
from tests.fake_service import FakeService


def _score(reward_funcs: list[Any], out: Any) -> None:
    """Score a group as the loop in the spawned process does."""
    from accelerate.state import PartialState
    from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

    group: Any = SimpleNamespace(
        prompts=["p"] * 2,
        completions=["#### 18", "#### 17"],
        completions_ids=[[1], [2, 3]],
        reward_kwargs={"answer": ["18"] * 2},
        completions_sequences=[
            [SimpleNamespace(input_ids=[1], completion_mask=[1], old_log_probs=[0.0])]
        ]
        * 2,
        tool_call_counts=[0] * 2,
        tool_failure_counts=[0] * 2,
        model_version=0,
        group_id=0,
    )
    PartialState()
    loop = object.__new__(_AsyncRolloutLoop)
    loop.reward_funcs, loop._env_reward_types = reward_funcs, []
    loop.reward_func_names = [function.__name__ for function in reward_funcs]
    samples = asyncio.run(loop._score_group(group))
    out.put([(sample.metrics, sample.advantage) for sample in samples])


def test_a_spawned_worker_asks_the_service() -> None:
    with FakeService() as service:
        functions = [judge_reward(url=service.url), *judge_rewards(url=service.url, name="judge")]
        context = multiprocessing.get_context("spawn")
        out = context.Queue()
        process = context.Process(target=_score, args=(functions, out))
        process.start()
        (right, best), (wrong, worst) = out.get(timeout=120)
        process.join(60)
    assert process.exitcode == 0
    rewards = [{k: v for k, v in m.items() if k.startswith("rewards/")} for m in (right, wrong)]
    names = ("judge_reward", "judge", "rule_agreement", "length")
    assert rewards == [
        dict(zip((f"rewards/{name}" for name in names), values, strict=True))
        for values in ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0])
    ]
    assert (best, worst) == (0.0, 0.0) or best * worst < 0
