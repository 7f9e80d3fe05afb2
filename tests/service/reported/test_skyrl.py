"""In SkyRL a call that the token limit cut off was taken for a malformed one, and scored 0.0."""

from typing import Any

import pytest
from skyrl_gym.tools.core import ToolGroup, tool

from reward_serve_skyrl import GSM8kJudgeEnv
from reward_serve_skyrl.agents import assistant_turn
from tests.fake_service import FakeService, Reply

CALL = '<tool_call>{"name": "add", "arguments": {"a": 9, "b": 9}}</tool_call>'
CUT = [CALL[:size] for size in (3, 10, 11, 12, 30, len(CALL) - 13)]


class Calculator(ToolGroup):  # type: ignore[misc]  # skyrl_gym is untyped
    def __init__(self) -> None:
        super().__init__("calculator")

    @tool
    def add(self, a: float, b: float) -> float:
        """Add.

        Args:
            a: A number.
            b: Another.
        """
        return a + b


def env_of(service: FakeService, turns: int, **settings: Any) -> GSM8kJudgeEnv:
    service.replies["/v1/score/batch"] = Reply({"results": [{"status": "ok", "score": 0.0}]})
    section = {"url": service.url, "on_failure": "none", "tools": f"{__name__}:Calculator"}
    columns = {"reward_spec": {"ground_truth": "18"}, "max_turns": turns}
    env = GSM8kJudgeEnv({**section, **settings}, columns)
    env.init([{"role": "user", "content": "9 + 9?"}])
    return env


@pytest.mark.parametrize("text", ["", "<think>I add.</think>I ask.\n"])
@pytest.mark.parametrize("cut", CUT)
@pytest.mark.parametrize("turns", [1, 4], ids=["last turn", "first turn"])
def test_a_cut_off_call_is_undecided(service: FakeService, turns: int, cut: str, text: str) -> None:
    env = env_of(service, turns)
    step = env.step(f"{text}{CALL}\n{cut}" if len(cut) > 20 else f"{text}{cut}")
    assert (step["done"], step["reward"], step["observations"]) == (True, 0.0, [])
    metrics = env.get_metrics()
    assert (metrics["judge_undecided"], metrics["judge_failed_cut_off"]) == (1.0, 1.0)
    assert not service.calls


def test_a_cut_off_call_after_rewarded_turns_leaves_the_episode_out(service: FakeService) -> None:
    env = env_of(service, 4, reward="turns")
    first = env.step(CALL)
    assert (first["done"], env.get_metrics()["judge_undecided"]) == (False, 0.0)
    assert first["observations"] == [{"role": "tool", "name": "add", "content": "18"}]
    assert env.step(CUT[-1])["done"]
    assert env.get_metrics()["judge_undecided"] == 1.0


@pytest.mark.parametrize(
    "text", ["<tool_call>{add 9</tool_call>", '<tool_call>{"name": 1}</tool_call>']
)
def test_a_whole_call_that_is_malformed_is_judged(service: FakeService, text: str) -> None:
    env = env_of(service, 2)
    step = env.step(text)
    assert "write JSON with a tool's name" in step["observations"][0]["content"]
    env.step(text)
    assert (len(service.calls), env.get_metrics()["judge_undecided"]) == (1, 0.0)


@pytest.mark.parametrize("text", [CALL.removesuffix("</tool_call>"), f"I ask. {CALL}"])
def test_a_whole_call_is_a_call_even_where_a_stop_string_took_its_end(text: str) -> None:
    turn = assistant_turn(text)
    assert turn and [call["name"] for call in turn["tool_calls"]] == ["add"]
    assert turn["content"] in ("", "I ask.")


def test_thoughts_of_any_model_contain_no_calls() -> None:
    for text in (f"[THINK]{CALL}[/THINK] 18", f"\u25c1think\u25b7{CUT[-1]}\u25c1/think\u25b7 18"):
        turn = assistant_turn(text)
        assert turn == {"role": "assistant", "content": text, "tool_calls": []}
