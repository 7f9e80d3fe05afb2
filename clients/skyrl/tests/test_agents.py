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
from reward_serve_skyrl.config import check_turns_are_rewarded
from reward_serve_skyrl.main import SyncTrainer, read_config
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
    """Scores the last turn as it says, unless it says nothing."""

    async def score(self, request: ScoreRequest, trace: Any = None) -> ScoreResult:
        value = request.judged.partition("worth ")[2].split()
        if not value:
            return failure(Status.UNPARSEABLE, "no verdict")
        return ScoreResult(status=Status.OK, score=float(value[0]), source="judge")


def call(a: float, b: float) -> str:
    arguments = json.dumps({"name": "divide", "arguments": {"a": a, "b": b}})
    return f"<tool_call>\n{arguments}\n</tool_call>"


SOLVED = [f"worth 0.25 {call(36, 2)}", f"worth 0.5 {call(1, 0)}", "worth 1 #### 18", "unasked"]
ENDLESS = [f"worth 0.5 {call(36, 2)}"] * 4


def agent(url: str, *overrides: str) -> Any:
    none = f"{SECTION}.on_failure=none"
    return configured(url, TOOLS, none, "generator.max_turns=4", *overrides)


def by_turn(output: dict[str, Any], row: int) -> list[float]:
    """The rewards at the last tokens of a row's turns, beside which there are none."""
    rewards, mask = output["rewards"][row], [*output["loss_masks"][row], 0]
    ends = [n for n, trained in enumerate(mask[:-1]) if trained and not mask[n + 1]]
    assert sum(rewards) == sum(rewards[n] for n in ends)
    return [rewards[n] for n in ends]


@pytest.mark.parametrize(
    ("reward", "expected"),
    [("end", [0, 0, 1]), ("turns", [0.25, 0.5, 1]), ("differences", [0.25, 0.25, 0.5])],
)
def test_each_turn_has_its_reward_at_its_last_token(
    reward: str, expected: list[float], tokenizer: Any
) -> None:
    with FakeService(Worth()) as service:
        config = agent(service.url, f"{SECTION}.reward={reward}")
        _, output = rollout(config, tokenizer, [SOLVED], [extras(0)])

    assert by_turn(output, 0) == expected
    assert output["env_metrics"][0]["judge_undecided"] == 0
    asked = [each for sent in service.calls for each in sent.body["requests"]]
    assert len(asked) == (1 if reward == "end" else 3)
    request = ScoreRequest.model_validate(asked[-1])
    assert (request.reference, request.group) == (["18"], "train/0")
    assert [each["function"]["name"] for each in request.tools or ()] == ["divide"]
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [turn.role for turn in request.conversation] == roles
    calls, answers = request.conversation[1], request.conversation[2::2]
    assert [each.shown for each in calls.tool_calls or ()] == [call(36, 2).split("\n")[1]]
    assert [turn.text for turn in answers] == ["18.0", "error: ZeroDivisionError: division by zero"]


@pytest.mark.parametrize(
    ("turns", "status", "overrides"),
    [
        ([*SOLVED[:2], "no verdict"], "unparseable", ["reward=end"]),
        ([SOLVED[0], call(1, 0), "worth 1", "unasked"], "unparseable", ["reward=turns"]),
        (ENDLESS, "cut_off", ["reward=end"]),
        (SOLVED, "down", ["reward=end", "timeout_s=1"]),
        (SOLVED, "down", ["reward=turns", "timeout_s=1"]),
    ],
)
@pytest.mark.parametrize("step_wise", [False, True])
def test_an_episode_without_a_verdict_is_not_trained_on(
    turns: list[str], status: str, overrides: list[str], step_wise: bool, tokenizer: Any
) -> None:
    if step_wise and "reward=turns" in overrides:
        return  # it is refused, below
    settings = [f"{SECTION}.{each}" for each in (*overrides, "max_undecided=1")]
    settings += ["trainer.train_batch_size=1", "trainer.policy_mini_batch_size=1"]
    settings += [
        "generator.n_samples_per_prompt=3",
        f"generator.step_wise_trajectories={step_wise}",
    ]
    length = 100 if status == "cut_off" else 1000
    with FakeService(Worth()) as service:
        url = dead_url() if status == "down" else service.url
        config = agent(url, *settings, f"generator.max_input_length={length}")
        said = [turns, ["worth 1"], ["worth 0"]]
        _, output = rollout(config, tokenizer, said, [extras(n) for n in range(3)])
    trainer = trainer_of(SyncTrainer, config)
    uids = ["prompt"] * len(output["rewards"])
    data = trainer.convert_to_training_input(*trainer.postprocess_generator_output(output, uids))

    assert trainer.all_metrics["reward/undecided_share"] == (1 if status == "down" else 1 / 3)
    decided = [] if status == "down" else [len(uids) - 2, len(uids) - 1]
    assert data.metadata["rows_to_train"] == decided
    if not step_wise and status != "down":
        assert output["env_metrics"][0][f"judge_failed_{status}"] == 1


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["reward=turn"], "reward=turn: use end, turns or differences"),
        (["reward=turns", "tools=null"], "there is one turn"),
        (["reward=turns", "on_failure=rule"], "on_failure must be none"),
        (["group_size=4"], "conversations are not compared"),
    ],
)
def test_settings_that_lose_rewards_are_refused(overrides: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_turns_are_rewarded(agent("http://x", *(f"{SECTION}.{each}" for each in overrides)))


def test_so_are_those_under_which_skyrl_drops_them() -> None:
    turns = f"{SECTION}.reward=turns"
    for override in ("step_wise_trajectories=true", "chat_template.name_or_path=qwen3"):
        with pytest.raises(ValueError, match="the last turn's reward alone"):
            check_turns_are_rewarded(agent("http://x", turns, f"generator.{override}"))
    with pytest.raises(ValueError, match="to 2 or more"):
        check_turns_are_rewarded(agent("http://x", "generator.max_turns=1"))


def test_the_policys_chat_template_is_given_the_tools() -> None:
    cfg = read_config([*settings("judge", "sync"), TOOLS, "generator.max_turns=4"])

    (given,) = cfg.generator.chat_template_kwargs["tools"]
    assert given["function"]["parameters"]["required"] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"First. {call(1, 2)}\n{call(3, 4)}", "First.", 2),
        ('<tool_call>{"name": "divide", "arguments": "{1}"}', "", 1),
        (f"<think>{call(1, 2)}</think> 18", f"<think>{call(1, 2)}</think> 18", 0),
        ("<tool_call>{divide 1</tool_call>", "<tool_call>{divide 1</tool_call>", None),
        ('<tool_call>{"name": 1}</tool_call>', '<tool_call>{"name": 1}</tool_call>', None),
    ],
)
def test_calls_are_read_as_written(text: str, content: str, calls: int | None) -> None:
    turn, read = assistant_turn(text)

    assert (turn["content"], len(turn["tool_calls"])) == (content, calls or 0)
    assert read == [None] if calls is None else None not in read
