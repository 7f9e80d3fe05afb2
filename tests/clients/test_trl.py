from __future__ import annotations

import inspect

import pytest

from reward_serve_trl import judge_reward
from tests.fake_service import FakeService, free_port


def test_trl_awaits_it_and_knows_its_name() -> None:
    reward = judge_reward(url="http://127.0.0.1:1", name="judge")

    assert inspect.iscoroutinefunction(reward)
    assert reward.__name__ == "judge"


async def test_plain_completions_are_scored_in_order(service: FakeService) -> None:
    reward = judge_reward(url=service.url)
    scores = await reward(
        prompts=["p"] * 3, completions=["#### 18", "#### 17", "#### 19"], answer=["18", "18", "19"]
    )

    assert scores == [1.0, 0.0, 1.0]


async def test_the_assistants_last_turn_is_scored(service: FakeService) -> None:
    turns = [
        {"role": "assistant", "content": "#### 17"},
        {"role": "user", "content": "#### 17"},
        {"role": "assistant", "content": "#### 18"},
    ]
    reward = judge_reward(url=service.url, reference="gold")

    assert await reward(prompts=[[]], completions=[turns], gold=["18"]) == [1.0]


async def test_a_failed_verdict_is_none_and_the_others_are_kept(service: FakeService) -> None:
    logged: dict[str, float] = {}
    reward = judge_reward(url=service.url)
    scores = await reward(
        prompts=["p"] * 2,
        completions=["18 or 17?", "#### 18"],
        answer=["18", "18"],
        log_metric=logged.__setitem__,
    )

    assert scores == [None, 1.0]
    assert logged == {"judge/ok": 0.5}


async def test_a_dead_service_gives_none_and_no_exception() -> None:
    reward = judge_reward(
        url=f"http://127.0.0.1:{free_port()}", timeout_s=1, max_attempts=1, window_s=0
    )

    assert await reward(prompts=["p"], completions=["#### 18"], answer=["18"]) == [None]


async def test_a_missing_column_is_named() -> None:
    with pytest.raises(KeyError, match="'answer' is no column of the data set"):
        await judge_reward(url="http://x")(prompts=["p"], completions=["1"], solution=["1"])
