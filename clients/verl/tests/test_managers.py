"""verl 0.9.1's own reward managers, rewarded by a live service over HTTP: ``make test-clients``.

Runs in verl's environment; the service in the one that ``REWARD_SERVE_BIN`` names.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from omegaconf import OmegaConf
from transformers import PreTrainedTokenizerFast
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.workers.reward_manager.naive import NaiveRewardManager

from clients.verl.tests.reward_loop import REWARDS, configured, rollout, scored
from reward_serve.client import ScoringError
from reward_serve_verl.training import DecidedRewardManager
from tests.fake_rubric import containing, fake_rubric
from tests.fake_service import FakeService


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """A Serve application of the rule model; its URL, and the process group that serves it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = tmp_path_factory.mktemp("service") / "rule.yaml"
    args = {"models": [{"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}}]}
    application = {"name": "reward", "route_prefix": "/", "args": args}
    config = {
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [application | {"import_path": "reward_serve.app:build_app"}],
    }
    file.write_text(OmegaConf.to_yaml(OmegaConf.create(config)), encoding="utf-8")
    command = [str(Path(os.environ["REWARD_SERVE_BIN"], "serve")), "run", str(file)]
    process = subprocess.Popen(command, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(url, process)
        yield url, process.pid
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        assert process.poll() is None, "the service ended"
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/ready").status_code == 200:
                return
        time.sleep(0.5)
    raise TimeoutError(f"{url} was not ready in 120 s")


def test_the_naive_reward_manager_gets_the_services_rewards(
    service: tuple[str, int], tokenizer: Path
) -> None:
    function = get_custom_reward_fn(configured(service[0], tokenizer, "compute_score_sync"))
    manager = NaiveRewardManager(
        PreTrainedTokenizerFast.from_pretrained(tokenizer), 0, compute_score=function
    )
    rewards: dict[str, Any] = manager(rollout(tokenizer), return_dict=True)

    assert rewards["reward_tensor"].sum(-1).tolist() == REWARDS
    extra = rewards["reward_extra_info"]
    assert extra["acc"] == REWARDS
    assert extra["by_rule"] == [1.0] * 3
    assert {len(values) for values in extra.values()} == {3}


def test_the_reward_loops_worker_awaits_the_service(
    service: tuple[str, int], tokenizer: Path
) -> None:
    assert scored(configured(service[0], tokenizer, "compute_score"), tokenizer) == [
        (reward, 0.0) for reward in REWARDS
    ]


def test_rows_of_other_data_sources_get_verls_own_score_without_the_service(
    tokenizer: Path,
) -> None:
    config = configured("http://127.0.0.1:1", tokenizer, judged_data_sources=["llm_judge_remote_*"])
    batch = rollout(tokenizer, truth="18")
    batch.non_tensor_batch["data_source"][:] = "openai/gsm8k"

    async def rewards() -> list[dict[str, Any]]:
        outputs: list[dict[str, Any]] = await RewardLoopWorker(config).compute_score_batch(batch)
        return outputs

    outputs = asyncio.run(rewards())
    assert [one["reward_score"] for one in outputs] == [1.0, 0.0, 0.0]  # verl wants the ####
    assert {one["reward_extra_info"]["judged"] for one in outputs} == {0.0}


def test_a_row_without_a_gold_answer_has_no_reward(
    service: tuple[str, int], tokenizer: Path
) -> None:
    async def reward() -> Any:
        worker = RewardLoopWorker(configured(service[0], tokenizer))
        return await worker.compute_score(rollout(tokenizer, truth=None)[:1])

    with pytest.raises(ScoringError, match="no verdict: invalid: reference: is missing"):
        asyncio.run(reward())


def test_a_row_with_a_rubric_and_no_reference_is_judged_by_its_components(tokenizer: Path) -> None:
    rubric = containing(right="18", marked="####, unless 17")
    batch = rollout(tokenizer, truth=None, rubric=rubric)

    async def rewards(url: str) -> list[dict[str, Any]]:
        worker = RewardLoopWorker(configured(url, tokenizer, components=["right", "marked"]))
        outputs: list[dict[str, Any]] = await worker.compute_score_batch(batch)
        return outputs

    with FakeService(model=fake_rubric()) as service:
        outputs = asyncio.run(rewards(service.url))
    assert [one["reward_score"] for one in outputs] == [1.0, 0.0, 0.5]
    extra = [one["reward_extra_info"] for one in outputs]
    assert [one["component_right"] for one in extra] == [1.0, 0.0, 1.0]
    first, absent, last = (one["component_marked"] for one in extra)
    assert (first, last) == (1.0, 0.0)
    assert math.isnan(absent)


def test_an_unknown_setting_ends_the_run_when_its_reward_manager_is_made(tokenizer: Path) -> None:
    config = configured("http://127.0.0.1:1", tokenizer, on_failur="none")
    config.trainer = {"use_v1": True}

    with pytest.raises(ValueError, match="reward_kwargs: on_failur: unknown"):
        DecidedRewardManager(config, None, None)


def test_a_service_that_dies_ends_no_rollout_and_is_reported(
    service: tuple[str, int], tokenizer: Path
) -> None:
    url, pid = service
    config = configured(url, tokenizer, "compute_score")
    scored(config, tokenizer)
    os.kill(pid, signal.SIGTERM)
    _wait_until_gone(url)

    assert scored(config, tokenizer) == [(reward, 1.0) for reward in REWARDS]


def _wait_until_gone(url: str) -> None:
    for _ in range(120):
        try:
            httpx.get(f"{url}/ready", timeout=1)
        except httpx.TransportError:
            return
        time.sleep(0.5)
    raise TimeoutError(f"{url} still answers")
