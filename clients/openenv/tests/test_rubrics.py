"""OpenEnv's own server, client and containers, with a fifth of the verdicts absent."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from openenv.core import Environment, GenericEnvClient, create_app
from openenv.core.env_server import Action, Observation, State
from openenv.core.rubrics import Gate, Rubric, Sequential, WeightedSum

from clients.pool.tests.faulty import FaultyService, fault_of, prompt_of, reply_of, reward_of
from reward_serve.client import ScoringError
from reward_serve_openenv import (
    AsyncServiceRubric,
    AsyncServiceTrajectoryRubric,
    ServiceRubric,
    ServiceTrajectoryRubric,
    Unscored,
)
from tests.fake_service import free_port

ROWS = 200


class Reply(Action):
    text: str


class Question(Observation):
    text: str = ""
    answer: str = ""


def request_of(action: Reply, observation: Question) -> dict[str, Any]:
    return {"response": action.text, "reference": [observation.answer]}


class Quiz(Environment[Reply, Question, State]):
    """One question an episode, which its seed chooses."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Question:
        self._reset_rubric()
        self.row = seed or 0
        return Question(text=prompt_of(self.row))

    def step(self, action: Reply, timeout_s: float | None = None, **_: Any) -> Question:
        observation = Question(done=True, answer=str(2 * self.row))
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self) -> State:
        return State()


class AsyncQuiz(Quiz):
    async def step_async(self, action: Reply, timeout_s: float | None = None, **_: Any) -> Question:
        observation = Question(done=True, answer=str(2 * self.row))
        observation.reward = await self._apply_rubric_async(action, observation)
        return observation


class Short(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(len(action.text) < 100)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyService]:
    with FaultyService() as service:
        monkeypatch.setenv("REWARD_SERVE_URL", service.url)
        monkeypatch.setenv("REWARD_SERVE_TIMEOUT_S", "2")
        yield service


@contextmanager
def served(environment: Callable[[], Quiz]) -> Iterator[str]:
    """The URL of OpenEnv's server of this environment."""
    port = free_port()
    app = create_app(environment, Reply, Question, max_concurrent_envs=64)
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


async def played(url: str, rows: int = ROWS) -> list[float | str | None]:
    """The reward of each row's episode as OpenEnv's client has it, or its error."""
    free = asyncio.Semaphore(32)

    async def reward(row: int) -> float | str | None:
        async with free, GenericEnvClient(base_url=url) as client:
            await client.reset(seed=row)
            try:
                return (await client.step({"text": reply_of(row)})).reward
            except RuntimeError as error:
                return str(error)

    return await asyncio.gather(*map(reward, range(rows)))


@pytest.mark.parametrize(
    ("environment", "kind"), [(Quiz, ServiceRubric), (AsyncQuiz, AsyncServiceRubric)]
)
def test_a_step_without_verdict_is_an_error(
    service: FaultyService, environment: type[Quiz], kind: type[ServiceRubric]
) -> None:
    with served(lambda: environment(rubric=Gate(kind(request_of), 0.5))) as url:
        rewards = asyncio.run(played(url))
    for row, reward in enumerate(rewards):
        if fault := fault_of(row):
            assert str(reward).startswith(f"Server error: no verdict: {fault.value}")
            assert str(reward).endswith("(code: EXECUTION_ERROR)")
        else:
            assert reward == reward_of(row)
    assert sum(isinstance(reward, str) for reward in rewards) == ROWS // 5


@pytest.mark.parametrize(
    ("environment", "kind"), [(Quiz, ServiceRubric), (AsyncQuiz, AsyncServiceRubric)]
)
def test_containers_pass_an_absent_verdict_on_as_none(
    service: FaultyService, environment: type[Quiz], kind: type[ServiceRubric]
) -> None:
    def made() -> Quiz:
        judged = WeightedSum([Gate(kind(request_of), 0.5), Short()], [0.75, 0.25])
        return environment(rubric=Unscored(Sequential(judged, kind(request_of))))

    with served(made) as url:
        rewards = asyncio.run(played(url))
    assert rewards == [reward_of(row) for row in range(ROWS)]
    assert rewards.count(None) == ROWS // 5


def test_scores_are_where_openenv_looks_for_them(service: FaultyService) -> None:
    judge = ServiceRubric(lambda *step: {**request_of(*step), "messages": None})
    rubric = Unscored(Gate(judge))
    right, wrong, failed = (
        (Reply(text=reply_of(row)), Question(answer=str(2 * row))) for row in (1, 3, 5)
    )
    assert [rubric(*step) for step in (right, wrong, failed)] == [1.0, 0.0, None]
    assert {name: part.last_score for name, part in rubric.named_rubrics()} == {
        "rubric": None, "rubric.rubric": None, "rubric.rubric.components": None
    }  # fmt: skip
    assert judge.last_result and judge.last_result.status == fault_of(5)


def conversation(steps: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt_of(1)}]
    for action, observation in steps:
        messages += [{"role": "assistant", "content": action.text}]
        messages += [{"role": "user", "content": observation.text}] * (not observation.done)
    return {"messages": messages, "reference": [steps[-1][1].answer], "turns": True}


def episode(rubric: Rubric, row: int) -> list[Any]:
    """The rewards of an episode that answers wrongly, then as the policy does."""
    first = rubric(Reply(text="#### 1"), Question(text="Are you sure?"))
    last = rubric(Reply(text=reply_of(row)), Question(done=True, answer=str(2 * row)))
    return [first, last]


def test_each_turn_of_an_episode_has_its_reward(service: FaultyService) -> None:
    rubric = ServiceTrajectoryRubric(conversation)
    assert episode(rubric, 1) == [0.0, 1.0]
    assert rubric.compute_step_rewards() == [0.0, 1.0]
    assert rubric.get_rubric("components.turn_2").last_score == 1.0
    assert len([call for call in service.calls if call.path == "/v1/score/batch"]) == 1
    rubric.reset()
    with pytest.raises(ScoringError, match="no verdict"):
        episode(rubric, 5)
    with pytest.raises(ScoringError, match="no verdict"):
        rubric.compute_step_rewards()


def test_a_score_without_turns_is_discounted(service: FaultyService) -> None:
    def whole(steps: Any) -> dict[str, Any]:
        return {**conversation(steps), "turns": False}

    async def played() -> Any:
        return [await reward for reward in episode(rubric, 1)]

    rubric = AsyncServiceTrajectoryRubric(whole, gamma=0.5)
    assert asyncio.run(played()) == [0.0, 1.0]
    assert rubric.compute_step_rewards() == [0.5, 1.0]
