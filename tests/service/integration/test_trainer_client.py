"""The client that trainers share, and TRL's own trainer, on real applications."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve

from reward_serve.client import connect
from reward_serve.schema import ScoreResult, Status
from reward_serve_judge.weights import prepare_bundled
from reward_serve_trl import judge_reward
from reward_serve_verl import compute_score_sync
from tests.service.integration.applications import RULES, rule
from tests.service.integration.conftest import Deploy, wait_for

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
def test_an_application_that_goes_away_is_counted(deploy_app: Deploy) -> None:
    deploy_app("leaves", {"models": [rule("rule", "gsm8k")]})
    client = connect(app="leaves", on_failure="rule", timeout_s=20, max_attempts=2)
    assert client.score(asked(0)).source == "rule"

    serve.delete("leaves")
    results = client.score_batch([asked(n) for n in range(20)])

    assert [outcome(result) for result in results] == [answer(n) for n in range(20)]
    assert {result.source for result in results} == {"fallback"}
    counts = client.counters.snapshot()
    assert (counts["failed"], counts["fallback"], counts["ok"]) == (20, 20, 1)


def test_an_inline_template_that_is_refused_is_reported_with_the_remedy(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    info = {"prompt_template": "{PROBLEM} {CANDIDATE_SOLUTION} REWARD: 0 to 1", "problem": "?"}
    row = compute_score_sync("gsm8k", "#### 18", "18", info, url=url)

    assert (row["score"], row["fallback"], row["failed_invalid"]) == (1.0, 1.0, 1.0)
    # The answer is handed out before the batch is reported.
    wait_for("the report", lambda: "judge.inline_templates: true" in caplog.text, 30)


@pytest.mark.slow
def test_an_inline_template_is_judged_where_they_are_allowed(deploy_app: Deploy) -> None:
    judge = {"inline_templates": True, "max_tokens": 16}
    model = {"name": "judge", "kind": "judge", "judge": judge, "engine": {"model": "bundled"}}
    client = deploy_app("inline", {"models": [model | {"resources": {"num_cpus": 1}}]})
    template = "Say REWARD: 1 or REWARD: 0.\n{CANDIDATE_SOLUTION}"
    result = client.score({"response": "18", "template": template, "timeout_s": 60})

    assert result.template == "inline"
    assert result.status in (Status.OK, Status.TRUNCATED, Status.UNPARSEABLE)
    assert result.usage.completion_tokens > 0


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
