"""slime's interface as published: ``Sample`` of slime/utils/types.py, its arguments."""

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reward_serve.client.rows import REFUSED_SAMPLES, RefusedRowError
from reward_serve_slime import post_process_rewards, score
from tests.fake_service import FakeService

GRPO = SimpleNamespace(
    advantage_estimator="grpo", rewards_normalization=True, grpo_std_normalization=True
)


@dataclass
class Sample:
    """The fields of slime's that are read or written."""

    group_index: int
    reward: float
    prompt: Any = "How many?"
    response: str = ""
    label: Any = "18"
    remove_sample: bool = False

    def get_reward_value(self, args: Any) -> float:
        return self.reward


def samples(*groups: list[float]) -> list[Sample]:
    return [Sample(index, reward) for index, group in enumerate(groups) for reward in group]


def slimes(group: list[float]) -> list[float]:
    """``RolloutManager._post_process_rewards`` of one group."""
    return [(reward - fmean(group)) / (stdev(group) + 1e-6) for reward in group]


def test_a_step_that_is_all_decided_is_slimes_own() -> None:
    raw, rewards = post_process_rewards(GRPO, samples([1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]))

    assert raw == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    assert rewards == pytest.approx(slimes(raw[:4]) + slimes(raw[4:]), abs=1e-5)


@pytest.mark.parametrize("group", [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.5, 1.0, 0.0]])
def test_siblings_have_the_advantages_of_a_group_without_the_undecided(group: list[float]) -> None:
    step = samples([*group, math.nan])
    raw, rewards = post_process_rewards(GRPO, step)

    assert rewards == pytest.approx([*slimes(group), 0.0], abs=1e-5)
    assert [s.remove_sample for s in step] == [False] * len(group) + [True]
    assert raw[-1] == pytest.approx(sum(group) / len(group))


def test_a_lone_survivor_is_masked() -> None:
    step = samples([math.nan, 1.0, math.nan, math.nan], [1.0, 0.0, 1.0, 1.0])
    post_process_rewards(GRPO, step)

    assert [s.remove_sample for s in step] == [True] * 4 + [False] * 4


async def test_a_sample_without_a_gold_answer_is_left_out_and_a_run_of_them_ends(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    unlabelled = Sample(0, 0.0, response="#### 18", label=None)

    odd = await score(None, [unlabelled] * (REFUSED_SAMPLES - 1))
    assert isinstance(odd, list) and all(map(math.isnan, odd))
    with pytest.raises(RefusedRowError, match="reference: is missing"):
        await score(None, unlabelled)
    assert "reference" not in service.calls[0].body["requests"][0]
    assert await score(None, Sample(0, 0.0, response="#### 18")) == 1.0
    assert np.isnan(await score(None, unlabelled))  # later ones are left out


async def test_one_sample_or_several_have_a_score_each_and_undecided_is_nan(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    right, wrong = (Sample(0, 0.0, response=f"#### {n}") for n in (18, 17))

    assert await score(None, [right, wrong]) == [1.0, 0.0]
    assert await score(None, []) == []
    assert np.isnan(await score(None, Sample(0, 0.0, response="18 or 17, who knows?")))
