"""An environment that compares several rollouts of a task with each other."""

from __future__ import annotations

import verifiers.v1 as vf
from verifiers.v1.envs.best_of_n.env import BestOfNEnv

from reward_serve_verifiers import ServiceJudge, ServiceJudgeConfig

__all__ = ["ComparedEnv"]


class ComparedEnv(BestOfNEnv):
    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        judge = ServiceJudge(ServiceJudgeConfig(name="rank"))
        await judge.score_group(task.data, episode.traces)
