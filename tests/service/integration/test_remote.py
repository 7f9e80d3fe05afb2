"""A judge behind vLLM's own OpenAI server, which dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deployments.local import free_port
from reward_serve import HttpRewardClient, RewardClient
from reward_serve.schema import Status
from reward_serve_judge.weights import ADAPTER, prepare_bundled
from tests.service.integration.conftest import Deploy, wait_for

APP = "remote"
RIGHT = {"response": "The answer is 18.", "reference": "18"}
WRONG = {"response": "The answer is 16.", "reference": "18"}


@pytest.fixture
def endpoint() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The URL and process of vLLM's server with the bundled judge's weights."""
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(prepare_bundled(adapter=ADAPTER)), "--served-model-name", "judge"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", "2048", "--enforce-eager", "--max-num-seqs", "16"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"},
        start_new_session=True,
    )

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_for("vLLM's server", answers, 180)
        yield f"http://127.0.0.1:{port}/v1", process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the server and its engine."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_a_remote_judge_scores_by_its_endpoints_logprobs_until_it_dies(
    endpoint: tuple[str, subprocess.Popen[bytes]], deploy_app: Deploy, url: str
) -> None:
    base_url, process = endpoint
    remote: dict[str, Any] = {"model": "judge", "api_key_env": None, "max_retries": 0}
    model = {
        "name": "remote",
        "kind": "remote",
        "remote": {**remote, "base_url": base_url},
        "judge": {"rules_first": False},
        "cache": {"enabled": False},
        "resources": {"num_cpus": 0.1},
    }
    deploy_app(APP, {"models": [model]})
    with HttpRewardClient(f"{url}/{APP}", timeout_s=60) as http:
        wait_for("the remote judge", http.is_ready, 60)
        results = http.score_batch([RIGHT, WRONG])
        (described,) = http.models()
    assert [result.score for result in results] == [1.0, 0.0]
    assert {result.source for result in results} == {"remote"}
    assert results[0].usage.prompt_tokens > 50
    assert (described["kind"], described["engine"]["weights"]) == ("remote", "judge")
    kill(process)
    away = RewardClient(APP, timeout_s=60, max_attempts=1).score_batch([RIGHT, WRONG])
    assert {(result.status, result.score) for result in away} == {(Status.ERROR, None)}
