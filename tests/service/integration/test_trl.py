"""TRL's own trainer, on a CPU, rewarded by the live service."""

from __future__ import annotations

from pathlib import Path

import pytest

from reward_serve_judge.weights import prepare_bundled
from reward_serve_trl import judge_reward

QUESTION = "Ann has 5 plums and buys 7 more. How many plums has she?"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_grpo_takes_steps_on_the_judges_rewards(url: str, tmp_path: Path) -> None:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    policy = prepare_bundled(adapter=None)
    row = {
        "prompt": [{"role": "user", "content": QUESTION}],
        "question": QUESTION,
        "answer": "#### 12",
    }
    config = GRPOConfig(
        output_dir=str(tmp_path),
        use_cpu=True,
        bf16=False,
        max_steps=2,
        num_generations=4,
        per_device_train_batch_size=4,
        max_completion_length=24,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        seed=0,
    )
    trainer = GRPOTrainer(
        model=str(policy),
        processing_class=AutoTokenizer.from_pretrained(policy),
        args=config,
        train_dataset=Dataset.from_list([row]),
        reward_funcs=[judge_reward(url=url)],
    )
    trainer.train()

    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert [entry["step"] for entry in steps] == [1, 2]
    assert all(0 <= entry["reward"] <= 1 for entry in steps)
    assert all(entry["judge/ok"] == 1 for entry in steps)
