"""Environments that own their reward, in TRL 1.16's GRPOTrainer and AsyncGRPO's rollout loop."""

import pickle
import queue
import time
from functools import partial
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from trl.experimental.async_grpo.async_rollout_worker import _AsyncRolloutLoop

from clients.trl.tests.test_tools import Calculator, tokenizer, trained
from reward_serve.client.rows import RefusedRowError
from reward_serve.reward_models.base import RewardModel
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure
from reward_serve_trl import judge_reward
from reward_serve_trl.environments import EnvironmentJudge
from tests.fake_service import FakeService, Reply, dead_url
from tests.tool_turns import PROMPT, SAMPLES, multiply, texts

RESPONSES = ["#### 18", "#### 17", "18 or 17?", "#### 17"]
"""What the group's environments show: right, wrong, without a verdict, wrong."""


class Blocking(Calculator):
    """Its state is one of ``RESPONSES``, in the order of the resets."""

    resets = 0

    def __init__(self, judge: EnvironmentJudge) -> None:
        self.judge = judge

    def reset(self, answer: str, **row: Any) -> None:
        shown = RESPONSES[Blocking.resets % len(RESPONSES)]
        self.request = {"response": shown, "reference": answer}
        Blocking.resets += 1

    def get_reward(self) -> float | None:
        return self.judge.score(**self.request)


class Awaited(Blocking):
    async def get_reward(self) -> float | None:  # type: ignore[override]
        return await self.judge.ascore(**self.request)


@pytest.fixture(autouse=True)
def first_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blocking, "resets", 0)


class Loop(_AsyncRolloutLoop):  # type: ignore[misc]  # trl is untyped here
    """AsyncGRPO's loop, of one rollout at a time; the sampled texts are fake."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.script = cycle(text for sample in SAMPLES for text in texts(sample))

    async def _generate_one_turn(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        ids = self.tokenizer.encode(next(self.script) + "<|im_end|>")
        return ids, [-1.0] * len(ids)


def rolled_out(factory: Any, rewards: Any = (), groups: int = 1) -> list[Any]:
    """The samples of groups of four, scored by the loop as for the trainer's queue."""
    loop = Loop(
        model_name="policy", dataset=Dataset.from_list([{"prompt": PROMPT, "answer": "18"}]),
        reward_funcs=list(rewards), processing_class=tokenizer(), eos_token_ids=[0],
        rollout_buffer=None, model_version_value=SimpleNamespace(value=0),
        heartbeat_value=SimpleNamespace(value=0.0), failed_event=None, exception_info_queue=None,
        metrics_queue=queue.Queue(), environment_factory=factory, num_generations=4,
        max_inflight_tasks=1,
    )  # fmt: skip

    class Samples(queue.Queue[Any]):
        def put_nowait(self, sample: Any) -> None:
            super().put_nowait(sample)
            if self.qsize() == 4 * groups:
                loop._stop_event.set()

    loop.rollout_buffer = samples = Samples()
    loop._loop.run_until_complete(loop._run_loops(loop._stop_event))
    loop._tool_pool.shutdown()
    return [samples.get() for _ in range(4 * groups)]


@pytest.mark.parametrize("environment", [Blocking, Awaited])
def test_grpo_leaves_out_the_environment_without_a_verdict(
    environment: Any, tmp_path: Path
) -> None:
    with FakeService() as service:
        factory = partial(environment, EnvironmentJudge(url=service.url))
        trainer = trained(tmp_path, None, environment_factory=factory)

    np.testing.assert_array_equal(trainer.rewards, [[1.0], [0.0], [np.nan], [0.0]])
    logged = trainer.state.log_history[0]
    assert logged["reward"] == logged[f"rewards/{environment.__name__}/mean"]
    assert logged["reward"] == pytest.approx(1 / 3)
    advantages = [*trainer._logs["advantages"]]
    assert advantages[2] == 0
    assert advantages[0] == pytest.approx(-2 * advantages[1]) == pytest.approx(1.1545, abs=1e-3)


@pytest.mark.parametrize("environment", [Blocking, Awaited])
def test_so_does_async_grpo(environment: Any) -> None:
    with FakeService() as service:
        factory = partial(environment, EnvironmentJudge(url=service.url))
        samples = rolled_out(pickle.loads(pickle.dumps(factory)))

    rewards = [sample.metrics[f"rewards/{environment.__name__}"] for sample in samples]
    np.testing.assert_array_equal(rewards, [1.0, 0.0, np.nan, 0.0])
    assert samples[2].advantage == 0
    assert samples[0].advantage == pytest.approx(2**0.5) == pytest.approx(-2 * samples[1].advantage)


class Unreliable(RewardModel):
    """Judges every sample right, but fails every fifth."""

    asked = 0

    async def score(self, request: ScoreRequest, trace: Any = None) -> ScoreResult:
        self.asked += 1
        if self.asked % 5 == 0:
            return failure(Status.UNPARSEABLE, "no verdict")
        return ScoreResult(status=Status.OK, score=float(self.asked % 2), source="judge")

    def describe(self) -> dict[str, Any]:
        return {}


def test_of_20_percent_faults_none_trains_as_a_number() -> None:
    with FakeService(Unreliable()) as service:
        factory = partial(Awaited, EnvironmentJudge(url=service.url))
        samples = rolled_out(factory, groups=25)

    absent = [sample for sample in samples if np.isnan(sample.metrics["reward"])]
    assert len(absent) == 20
    assert [sample for sample in absent if sample.advantage] == []


def test_a_judge_asks_about_conversations_with_their_tools() -> None:
    turns = [*PROMPT, {"role": "assistant", "content": "#### 18"}]
    with FakeService() as service:
        judge = EnvironmentJudge(url=service.url)
        keys = {"metadata": {"a": 1}}
        assert judge.score(messages=turns, tools=[multiply], reference=["18"], **keys) == 1
    (asked,) = service.calls[0].body["requests"]
    assert (asked["messages"], asked["metadata"]) == (turns, {"a": 1})
    assert asked["tools"][0]["function"]["name"] == "multiply"


def test_partials_and_instances_are_reward_functions(tmp_path: Path) -> None:
    with FakeService() as service:
        reward = partial(judge_reward(url=service.url, tools=[multiply]), unused=1)
        trainer = trained(tmp_path, reward, tools=[multiply])
        samples = rolled_out(Calculator, [pickle.loads(pickle.dumps(reward))])

    np.testing.assert_array_equal(trainer.rewards, [[1.0], [0.0], [np.nan], [np.nan]])
    rewards = [sample.metrics["rewards/judge_reward"] for sample in samples]
    np.testing.assert_array_equal(rewards, [1.0, 0.0, np.nan, np.nan])


def test_without_a_service_all_rewards_are_absent_and_a_refusal_ends_the_run() -> None:
    factory = partial(Blocking, EnvironmentJudge(url=dead_url(), timeout_s=0.2))
    began = time.perf_counter()
    assert all(np.isnan(sample.metrics["reward"]) for sample in rolled_out(factory))
    assert time.perf_counter() - began < 10

    with FakeService() as service:
        service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
        with pytest.raises(RefusedRowError, match="unknown API key"):
            rolled_out(partial(Awaited, EnvironmentJudge(url=service.url)))
