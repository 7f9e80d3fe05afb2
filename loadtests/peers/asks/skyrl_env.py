"""SkyRL's LLM-as-a-judge environment, typed anew from its published example.

``examples/train/llm_as_a_judge/llm_judge_env.py`` (NovaSky-AI/SkyRL, Apache-2.0), which no wheel
contains: a client for each environment, a call without options, 0.0 on any failure. SkyRL's
generator steps environments in 32 threads (``max_env_workers``) unless ``generator.batched``, which
the example's script sets, steps them one by one.
"""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openai import OpenAI
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from loadtests.peers.lines import MODEL, URL, Row, answer, each

PROMPT = Path(__file__).with_name("skyrl.txt").read_text(encoding="utf-8")
workers = ThreadPoolExecutor(32)


class JudgeEnv(BaseTextEnv):  # type: ignore[misc]
    """Its reward, as the example computes it."""

    def __init__(self, extras: dict[str, Any]) -> None:
        super().__init__()
        self.ground_truth = extras["reward_spec"]["ground_truth"]
        self.client = OpenAI(base_url=URL, api_key="none")

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """One call of the judge; any failure is 0.0."""
        gold = f"GOLD SOLUTION:\n{self.ground_truth}\n\nPREDICTED SOLUTION:\n{action}"
        message: Any = {"role": "user", "content": f"{PROMPT}\n\n{gold}\n\nAnswer:"}
        reward = 0.0
        try:
            said = self.client.chat.completions.create(model=MODEL, messages=[message])
            reply = said.choices[0].message.content.strip()  # type: ignore[union-attr]
            if match := re.search(r"### Final Score:\s*([01](?:\.0)?)", reply):
                reward = float(match[1])
            elif reply in {"0", "1"}:
                reward = float(reply)
        except Exception:
            reward = 0.0
        return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata={})


async def score(row: Row) -> float:
    """One environment, stepped once."""
    env = JudgeEnv({"reward_spec": {"ground_truth": row["reference"]}})
    stepped = await asyncio.get_running_loop().run_in_executor(workers, env.step, row["response"])
    return float(stepped["reward"])


if __name__ == "__main__":
    answer(each(score))
