"""The client that trainers share, and TRL's own trainer, on real applications."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray

from reward_serve.client import connect
from reward_serve.schema import ScoreResult
from reward_serve_judge.weights import prepare_bundled
from reward_serve_trl import judge_reward
from tests.service.integration.applications import RULES

QUESTION = "Ann has 5 plums and buys 7 more. How many plums has she?"


def asked(n: int) -> dict[str, Any]:
    """A request whose right answer depends on its number."""
    return {"response": f"#### {n}", "reference": str(n - n % 2), "id": str(n)}


def outcome(result: ScoreResult) -> tuple[str | None, float | None]:
    return result.id, result.score


def answer(n: int) -> tuple[str, float]:
    return str(n), float(n % 2 == 0)


def test_threads_and_coroutines_and_a_worker_of_the_cluster_score_by_handle(rule_url: str) -> None:
    client = connect(app=RULES, on_failure="rule")

    async def gathered() -> list[ScoreResult]:
        return await asyncio.gather(*(client.ascore(asked(n)) for n in range(500)))

    @ray.remote(num_cpus=0)
    def score(n: int) -> tuple[str | None, float | None]:
        return outcome(connect(app=RULES).score(asked(n)))

    right = [answer(n) for n in range(500)]
    assert list(map(outcome, asyncio.run(gathered()))) == right
    with ThreadPoolExecutor(32) as pool:
        assert list(map(outcome, pool.map(lambda n: client.score(asked(n)), range(500)))) == right
    counts = client.counters.snapshot()
    assert (counts["asked"], counts["ok"]) == (1000, 1000)
    assert ray.get([score.remote(n) for n in range(4)]) == right[:4]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_trls_grpo_takes_steps_on_the_judges_rewards(url: str, tmp_path: Path) -> None:
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    policy = prepare_bundled(adapter=None)
    prompt = [{"role": "user", "content": QUESTION}]
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
        train_dataset=Dataset.from_list(
            [{"prompt": prompt, "question": QUESTION, "answer": "#### 12"}]
        ),
        reward_funcs=[judge_reward(url=url)],
    )
    trainer.train()

    steps = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert [entry["step"] for entry in steps] == [1, 2]
    assert all(0 <= entry["reward"] <= 1 for entry in steps)
    assert all(entry["judge/ok"] == 1 for entry in steps)
