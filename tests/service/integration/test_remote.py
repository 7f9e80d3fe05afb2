"""A judge behind vLLM's own OpenAI server, which dies and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from ray import serve

from deployments.local import free_port
from reward_serve import HttpRewardClient, RewardClient, ScoreResult
from reward_serve.app import build_app
from reward_serve.schema import Status
from reward_serve_judge.weights import ADAPTER, prepare_bundled
from tests.service.integration.conftest import wait_for

pytestmark = pytest.mark.slow

APP = "remote"
RIGHT = {"response": "The answer is 18.", "reference": "18"}
WRONG = {"response": "The answer is 16.", "reference": "18"}


class Endpoint:
    """VLLM's own server with the bundled judge's weights."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(prepare_bundled(adapter=ADAPTER))]
        command += ["--served-model-name", "judge", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--dtype", "float32", "--max-model-len", "2048"]
        command += ["--enforce-eager", "--max-num-seqs", "16"]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"},
            start_new_session=True,
        )
        wait_for("vLLM's server", self.answers, 180)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # its engine with it
            self._process.wait()
            self._process = None

    def answers(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def endpoint(url: str) -> Iterator[Endpoint]:
    """The server, and our application in front of it, which asks no rules and keeps no answers."""
    server = Endpoint()
    remote: dict[str, Any] = {"model": "judge", "api_key_env": None, "max_retries": 0}
    remote["base_url"] = f"http://127.0.0.1:{server.port}/v1"
    model = {
        "name": "remote",
        "kind": "remote",
        "remote": remote,
        "judge": {"rules_first": False},
        "cache": {"enabled": False},
        "resources": {"num_cpus": 0.1},
    }
    try:
        server.start()
        serve.run_many([serve.RunTarget(build_app({"models": [model]}), APP, f"/{APP}")])
        yield server
    finally:
        serve.delete(APP)
        server.kill()


@pytest.mark.timeout(240)
def test_a_remote_judge_scores_by_its_endpoints_logprobs(endpoint: Endpoint, url: str) -> None:
    with HttpRewardClient(f"{url}/{APP}", timeout_s=60) as http:
        wait_for("the remote judge", http.is_ready, 60)
        results = http.score_batch([RIGHT, WRONG])
        (model,) = http.models()
    assert [result.score for result in results] == [1.0, 0.0]
    assert {result.source for result in results} == {"remote"}
    assert results[0].usage.prompt_tokens > 50
    assert (model["kind"], model["engine"]["weights"]) == ("remote", "judge")
    by_handle = RewardClient(APP, timeout_s=60).score_batch([RIGHT, WRONG])
    assert [result.score for result in by_handle] == [1.0, 0.0]


@pytest.mark.timeout(420)
def test_an_endpoint_that_dies_in_mid_run_is_a_typed_failure_until_it_is_back(
    endpoint: Endpoint, url: str
) -> None:
    results: list[ScoreResult] = []
    over = threading.Event()

    def ask() -> None:
        patient = HttpRewardClient(f"{url}/{APP}", timeout_s=240)
        while not over.is_set():
            results.extend(patient.score_batch([RIGHT, WRONG]))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        wait_for("the first verdicts", lambda: len(results) >= 4, 60)
        endpoint.kill()
        away = RewardClient(APP, timeout_s=60, max_attempts=1).score_batch([RIGHT, WRONG])
        assert {(result.status, result.score) for result in away} == {(Status.ERROR, None)}
        before = len(results)
        endpoint.start()
        wait_for("verdicts again", lambda: len(results) >= before + 4, 60)
    finally:
        over.set()
        thread.join()
    assert [result.score for result in results] == [1.0, 0.0] * (len(results) // 2)
    assert {result.source for result in results} == {"remote"}
