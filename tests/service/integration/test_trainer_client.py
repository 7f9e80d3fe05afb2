"""The client that trainers share, and TRL's own trainer, on real applications."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ray

from reward_serve.client import connect
from reward_serve.schema import ScoreResult
from reward_serve_judge.weights import prepare_bundled
from reward_serve_trl import judge_reward
from tests.service.integration.applications import RULES

QUESTION = "Ann has 5 plums and buys 7 more. How many plums has she?"
ASKED = [{"response": f"#### {n}", "reference": str(n - n % 2), "id": str(n)} for n in range(500)]
RIGHT = [(str(n), float(n % 2 == 0)) for n in range(500)]


def test_threads_and_coroutines_and_a_worker_of_the_cluster_score_by_handle(rule_url: str) -> None:
    client = connect(app=RULES, on_failure="rule")

    async def gathered() -> list[ScoreResult]:
        return await asyncio.gather(*map(client.ascore, ASKED))

    @ray.remote(num_cpus=0)
    def score(asked: dict[str, str]) -> ScoreResult:
        return connect(app=RULES).score(asked)

    with ThreadPoolExecutor(32) as pool:
        by_threads = list(pool.map(client.score, ASKED))
    for results in (asyncio.run(gathered()), by_threads):
        assert [(result.id, result.score) for result in results] == RIGHT
    counts = client.counters.snapshot()
    assert (counts["asked"], counts["ok"]) == (1000, 1000)
    by_worker = ray.get(score.remote(ASKED[1]))
    assert (by_worker.id, by_worker.score) == RIGHT[1]


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
