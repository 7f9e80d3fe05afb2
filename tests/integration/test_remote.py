"""A judge behind vLLM's own OpenAI server, which dies and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from examples.deployed import free_port
from reward_serve import HttpRewardClient
from reward_serve.embedded.bundled import ADAPTER, prepare_bundled
from reward_serve.schema import Status
from tests.integration.conftest import Deploy, wait_for

RIGHT = {"response": "Nine eggs at two dollars make eighteen, or 18 in all", "reference": "18"}
WRONG = {"response": "Nine eggs at two dollars make sixteen, or 16 in all", "reference": "18"}


@contextmanager
def vllm_server(port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(prepare_bundled(adapter=ADAPTER)), "--served-model-name", "judge"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--max-model-len", "2048", "--enforce-eager", "--max-num-seqs", "16"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # its engine with it


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_a_remote_judge_scores_and_its_endpoint_may_die_and_come_back(
    deploy_app: Deploy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    port = free_port()
    model = {
        "name": "remote",
        "kind": "remote",
        "remote": {
            "model": "judge",
            "base_url": f"http://127.0.0.1:{port}/v1",
            "api_key_env": None,
            "max_retries": 0,
        },
        "judge": {"rules_first": False},
        "cache": {"enabled": False},
    }
    with vllm_server(port):
        wait_for("vLLM's server", lambda: answers(port), 180)
        by_handle = deploy_app("remote", {"models": [model]})
        with HttpRewardClient(f"{url}/remote", timeout_s=60) as http:
            wait_for("the remote judge", http.is_ready, 60)
            results = http.score_batch([RIGHT, WRONG])
        assert [result.score for result in results] == [1.0, 0.0]
        assert {result.source for result in results} == {"remote"}
        assert results[0].usage.prompt_tokens > 50
    away = by_handle.score_batch([RIGHT, WRONG])
    assert {(result.status, result.score) for result in away} == {(Status.ERROR, None)}
    with vllm_server(port):
        wait_for("vLLM's server again", lambda: answers(port), 180)
        began = time.monotonic()
        assert [result.score for result in by_handle.score_batch([RIGHT, WRONG])] == [1.0, 0.0]
        assert time.monotonic() - began < 30
