"""slime's samples of several turns, aborted samples and evaluations; slime itself is not needed."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from reward_serve_slime import fill_evaluation, post_process_rewards, score
from tests.fake_service import FakeService

ARGS = SimpleNamespace(
    custom_generate_function_path="tools.generate", mask_offpolicy_in_partial_rollout=False,
    advantage_estimator="grpo", rewards_normalization=True, grpo_std_normalization=True,
)  # fmt: skip


@dataclass
class Sample:
    """slime's, of turns of the policy (1) and of tools (0); a token is a character."""

    turns: list[tuple[int, str]]
    label: str = "18"
    prompt: str = "9 + 9?"
    reward: Any = None
    group_index: int = 0
    remove_sample: bool = False
    generate_function_path: str | None = None
    tokens: list[int] = field(default_factory=list)
    loss_mask: list[int] | None = None

    def __post_init__(self) -> None:
        self.response = "".join(text for _, text in self.turns)
        self.tokens = list(map(ord, self.prompt + self.response))
        self.loss_mask = [is_generated for is_generated, text in self.turns for _ in text]

    def get_reward_value(self, args: Any) -> Any:
        return self.reward


@pytest.fixture
def fake_slime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of slime only the state of its rollouts, which has the policy's tokenizer."""
    module: Any = ModuleType("slime.rollout.sglang_rollout")
    tokenizer = SimpleNamespace(decode=lambda ids: "".join(map(chr, ids)))
    module.GenerateState = lambda args: SimpleNamespace(tokenizer=tokenizer)
    for name in ("slime", "slime.rollout"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture(autouse=True)
def judged_by(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Any]]:
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    return lambda: [item["response"] for call in service.calls for item in call.body["requests"]]


@pytest.mark.usefixtures("fake_slime")
async def test_what_a_tool_wrote_is_not_scored(judged_by: Callable[[], list[Any]]) -> None:
    samples = [
        Sample([(1, "Let me ask."), (0, "#### 18"), (1, "So it is #### 17")]),
        Sample([(1, "Let me ask. "), (0, "#### 17\n"), (1, "So it is "), (1, "#### 18")]),
        Sample([(1, "I will know."), (0, "#### 18")]),
    ]
    scores: Any = await score(ARGS, samples)
    assert scores[:2] == [0.0, 1.0]
    assert sorted(judged_by()) == sorted(
        ["Let me ask.\nSo it is #### 17", "Let me ask. \nSo it is #### 18", "I will know."]
    )


async def test_without_tools_the_response_is_as_it_is(judged_by: Callable[[], list[Any]]) -> None:
    plain = Sample([(1, "#### 18")])
    unmasked = Sample([(1, "#### 18")])
    unmasked.loss_mask = None
    assert await score(ARGS, [plain, unmasked]) == [1.0, 1.0]
    assert judged_by() == ["#### 18"] * 2


async def test_older_policies_masks_are_no_tools(judged_by: Callable[[], list[Any]]) -> None:
    args = SimpleNamespace(**vars(ARGS))
    args.mask_offpolicy_in_partial_rollout = True
    sample = Sample([(0, "So it is "), (1, "#### 18")])
    with pytest.raises(ValueError, match=r"--mask-offpolicy-in-partial-rollout: .* omit it"):
        await score(args, sample)
    args.custom_generate_function_path = None  # slime's own has no tools
    assert await score(args, sample) == 1.0
    assert judged_by() == ["So it is #### 18"]


def test_a_reward_of_none_is_undecided() -> None:
    rewards = [1.0, None, 0.0, math.nan]
    step = [Sample([(1, "x")], reward=reward) for reward in rewards]
    raw, trained = post_process_rewards(ARGS, step)
    assert raw == [1.0, 0.5, 0.0, 0.5]
    assert [sample.remove_sample for sample in step] == [False, True, False, True]
    assert trained == pytest.approx([2**-0.5, 0.0, -(2**-0.5), 0.0], abs=1e-5)


def test_one_undecided_sample_does_not_make_an_evaluation_nan() -> None:
    data: dict[str, Any] = {
        "gsm8k": {"rewards": [1.0, math.nan, 0.0, 1.0, None], "truncated": [False] * 5},
        "down": {"rewards": [math.nan, math.nan]},
    }
    assert fill_evaluation(3, ARGS, data, None) is False  # slime goes on to log what it was given
    logged = {key: sum(of["rewards"]) / len(of["rewards"]) for key, of in data.items()}
    assert logged["gsm8k"] == pytest.approx(2 / 3)
    assert (logged["gsm8k_undecided"], logged["down_undecided"]) == (0.4, 1.0)
    assert math.isnan(logged["down"]) and len(data["gsm8k"]["rewards"]) == 5
