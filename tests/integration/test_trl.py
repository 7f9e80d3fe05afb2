"""TRL's own trainer, on a CPU, rewarded by the live service."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.trl.grpo_gsm8k import plot, train
from reward_serve.embedded.bundled import prepare_bundled

pytestmark = pytest.mark.integration


@pytest.mark.filterwarnings("ignore")
def test_grpo_takes_steps_on_the_judges_rewards(url: str, tmp_path: Path) -> None:
    policy = prepare_bundled(adapter=None)
    history = train(policy, url, steps=2, generations=4, max_tokens=24, out=tmp_path)

    steps = [entry for entry in history if "reward" in entry]
    assert [entry["step"] for entry in steps] == [1, 2]
    assert all(0 <= entry["reward"] <= 1 for entry in steps)
    assert all(entry["judge/ok"] == 1 for entry in steps)

    plot([entry["reward"] for entry in steps], tmp_path / "rewards.png")
    assert (tmp_path / "rewards.png").stat().st_size > 1000
