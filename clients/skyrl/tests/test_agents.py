"""The environment of several turns in SkyRL 0.4.0's real generator, with a scripted policy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from skyrl_gym.tools.core import ToolGroup, tool

from clients.skyrl.tests.cpu_training import trainer_of
from clients.skyrl.tests.test_generator import SECTION, configured, extras, rollout
from clients.skyrl.tests.test_launch import settings
from reward_serve.reward_models.base import RewardModel
from reward_serve.schema import ScoreRequest, ScoreResult, Status, failure
from reward_serve_skyrl.agents import assistant_turn
from reward_serve_skyrl.config import check_settings
from reward_serve_skyrl.envs import register_envs
from reward_serve_skyrl.main import SyncTrainer, check_first_rows, read_config
from tests.fake_service import FakeService, dead_url

TOOLS = f"{SECTION}.tools={__name__}:Calculator"


class Calculator(ToolGroup):  # type: ignore[misc]  # skyrl_gym is untyped
    def __init__(self) -> None:
        super().__init__("calculator")

    @tool  # type: ignore[misc]
    def divide(self, a: float, b: float) -> float:
        """Divide.

        Args:
            a: What is divided.
            b: By what.
        """
        return a / b


class Worth(RewardModel):
    """Judges the last turn right with the probability that it says, if it does."""

    async def score(self, request: ScoreRequest, trace: Any = None) -> ScoreResult:
        if value := request.judged.partition("worth ")[2].split():
            shares = {"1": float(value[0]), "0": 1 - float(value[0])}
            right = float(shares["1"] >= 0.5)
            return ScoreResult(status=Status.OK, score=right, probabilities=shares, source="judge")
        return failure(Status.UNPARSEABLE, "no verdict")

    def describe(self) -> dict[str, Any]:
        return {}


def call(a: float, b: float) -> str:
    return f"<tool_call>{json.dumps({'name': 'divide', 'arguments': {'a': a, 'b': b}})}</tool_call>"


SOLVED = [f"worth 0.25 {call(36, 2)}", f"worth 0.5 {call(1, 0)}", "worth 1 #### 18", "unasked"]


def agent(url: str, *overrides: str) -> Any:
    """A configuration; settings without a section are the judge's."""
    named = [o if "." in o.partition("=")[0] else f"{SECTION}.{o}" for o in overrides]
    return configured(url, TOOLS, f"{SECTION}.on_failure=none", "generator.max_turns=4", *named)


@pytest.mark.parametrize(
    ("reward", "expected"),
    [("end", [0, 0, 1]), ("turns", [0, 1, 1]), ("differences", [0.25, 0.25, 0.5])],
)
def test_each_turn_has_its_reward_at_its_last_token(
    reward: str, expected: list[float], tokenizer: Any
) -> None:
    with FakeService(Worth()) as service:
        config = agent(service.url, f"reward={reward}")
        totals, output = rollout(config, tokenizer, [SOLVED], [extras(0)])
    (rewards,), mask = output["rewards"], [*output["loss_masks"][0], 0]
    ends = [n for n in range(len(rewards)) if mask[n] and not mask[n + 1]]

    assert ([rewards[n] for n in ends], totals) == (expected, [sum(expected)])
    asked = [request for sent in service.calls for request in sent.body["requests"]]
    assert len(asked) == (1 if reward == "end" else 3)
    last = ScoreRequest.model_validate(asked[-1])
    assert (last.reference, last.group, last.timeout_s <= 10) == (["18"], "train/0", True)
    assert [call["function"]["name"] for call in last.tools or ()] == ["divide"]
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [turn.role for turn in last.conversation] == roles
    assert call(36, 2) == f"<tool_call>{last.conversation[1].tool_calls[0].shown}</tool_call>"
    answers = ["18.0", "ZeroDivisionError: division by zero"]
    assert [turn.text for turn in last.conversation[2::2]] == answers


@pytest.mark.parametrize(
    ("status", "turns", "reward"),
    [
        ("unparseable", [*SOLVED[:2], "no verdict"], "end"),
        ("unparseable", [SOLVED[0], call(1, 0), "worth 1", "unasked"], "turns"),
        ("cut_off", [SOLVED[0]] * 4, "end"),
        ("error", SOLVED, "turns"),
    ],
)
def test_an_episode_without_a_verdict_is_not_trained_on(
    status: str, turns: list[str], reward: str, tokenizer: Any
) -> None:
    step = ["trainer.train_batch_size=1", "trainer.policy_mini_batch_size=1", "timeout_s=1"]
    step += ["generator.n_samples_per_prompt=3", f"reward={reward}", "max_undecided=1"]
    down, length = status == "error", 100 if status == "cut_off" else 1000
    with FakeService(Worth()) as service:
        url = dead_url() if down else service.url
        config = agent(url, *step, f"generator.max_input_length={length}")
        episodes = [turns, ["worth 1"], ["worth 0"]]
        _, output = rollout(config, tokenizer, episodes, [extras(n) for n in range(3)])
    trainer = trainer_of(SyncTrainer, config)
    output, uids = trainer.postprocess_generator_output(output, ["prompt"] * 3)
    data = trainer.convert_to_training_input(output, uids)

    assert trainer.all_metrics["reward/undecided_share"] == (1 if down else 1 / 3)
    assert data.metadata["rows_to_train"] == ([] if down else [1, 2])
    assert output["env_metrics"][0][f"judge_failed_{status}"] == 1


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("reward=turn", "reward=turn: use end, turns or differences"),
        ("on_failure=rule", "reward=turns: rules score answers, not turns"),
        ("generator.chat_template.name_or_path=x", "trains on the last reward alone"),
    ],
)
def test_settings_that_lose_rewards_are_refused(override: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_settings(agent("http://x", "reward=turns", override))


def test_a_run_gives_the_tools_to_the_policys_chat_template_and_to_the_service() -> None:
    register_envs()
    with FakeService() as service:
        cfg = read_config([*settings("judge", "sync", REWARD_SERVE_URL=service.url), TOOLS])
        check_first_rows(cfg, [([], None, extras(0), "0")])

    (given,) = cfg.generator.chat_template_kwargs["tools"]
    assert given["function"]["parameters"]["required"] == ["a", "b"]
    assert service.calls[0].body["requests"][0]["tools"] == [given]


@pytest.mark.parametrize(
    ("text", "content", "names"),
    [
        (f"First. {call(1, 2)}\n{call(3, 4)}", "First.", ["divide", "divide"]),
        (f"<think>{call(1, 2)}</think> 18", f"<think>{call(1, 2)}</think> 18", []),
        ("<tool_call>{divide 1</tool_call>", "", [""]),
    ],
)
def test_calls_are_read_as_written(text: str, content: str, names: list[str]) -> None:
    turn = assistant_turn(text)
    assert (turn["content"], [call["name"] for call in turn["tool_calls"]]) == (content, names)
