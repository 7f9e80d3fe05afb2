"""verl 0.9.1's own reward managers, rewarded over HTTP: ``make test-clients``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from clients.verl.tests.reward_loop import REWARDS, configured, rollout
from reward_serve.client import ScoringError
from reward_serve_verl.training import DecidedRewardManager
from tests.fake_service import FakeService, Reply


def scored(config: Any, batch: DataProto) -> tuple[list[float], list[dict[str, Any]]]:
    """Each row's reward and its metrics, by a worker of verl's reward loop."""

    async def run() -> list[dict[str, Any]]:
        outputs: list[dict[str, Any]] = await RewardLoopWorker(config).compute_score_batch(batch)
        return outputs

    outputs = asyncio.run(run())
    return [row["reward_score"] for row in outputs], [row["reward_extra_info"] for row in outputs]


def test_the_reward_loops_worker_awaits_the_service(tokenizer: Path) -> None:
    with FakeService() as service:
        config = configured(service.url, tokenizer)
        rewards, extra = scored(config, rollout(tokenizer))
        with pytest.raises(ScoringError, match="no verdict: invalid: reference: is missing"):
            scored(config, rollout(tokenizer, truth=None)[:1])

    assert rewards == REWARDS
    assert {info["fallback"] for info in extra} == {0.0}


def test_rows_of_other_data_sources_get_verls_own_score_without_the_service(
    tokenizer: Path,
) -> None:
    config = configured("http://127.0.0.1:1", tokenizer, judged_data_sources=["llm_judge_remote_*"])
    batch = rollout(tokenizer, truth="18")
    batch.non_tensor_batch["data_source"][:] = "openai/gsm8k"
    rewards, extra = scored(config, batch)

    assert rewards == [1.0, 0.0, 0.0]  # verl wants the ####
    assert {info["judged"] for info in extra} == {0.0}


def test_critiques_are_extra_fields_of_every_row(tokenizer: Path) -> None:
    verdict = {"status": "ok", "score": 0.0, "critique": "It adds."}
    with FakeService() as service:
        for result, critique in ((verdict, "It adds."), ({"status": "ok", "score": 1.0}, "")):
            service.replies["/v1/score/batch"] = Reply({"results": [result]})
            config = configured(service.url, tokenizer, critique=True, max_batch=1)
            _, extra = scored(config, rollout(tokenizer)[:1])
            assert [info["critique"] for info in extra] == [critique]


def test_dapos_penalty_for_length_is_applied_and_acc_is_the_verdict(tokenizer: Path) -> None:
    with FakeService() as service:
        config = configured(service.url, tokenizer, manager="DecidedRewardManager")
        penalty = {"enable": True, "len": 8, "penalty_factor": 1.0, "log": True}
        config.reward.reward_kwargs = {"overlong_buffer_cfg": penalty, "max_resp_len": 16}
        rewards, extra = scored(config, rollout(tokenizer))
        del config.reward.reward_kwargs.max_resp_len
        with pytest.raises(AssertionError, match="max_resp_len must be provided"):
            scored(config, rollout(tokenizer))

    lengths = (rollout(tokenizer).batch["responses"] > 0).sum(-1).tolist()
    penalties = [min(0.0, (8 - length) / 8) for length in lengths]
    assert min(penalties) < 0
    assert rewards == pytest.approx(
        [reward + less for reward, less in zip(REWARDS, penalties, strict=True)]
    )
    assert [info["acc"] for info in extra] == [info["score"] for info in extra] == REWARDS


def test_an_unknown_setting_ends_the_run_when_its_reward_manager_is_made(tokenizer: Path) -> None:
    config = configured("http://127.0.0.1:1", tokenizer, on_failur="none")
    with pytest.raises(ValueError, match="reward_kwargs: on_failur: unknown"):
        DecidedRewardManager(config, None, None)
