"""Sampling at vLLM servers, alone and behind a real ``vllm-router``.

The router is in SkyPilot's environment: ``SKYPILOT_PYTHON``, which `make test-all` builds and sets.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
import tinker

from deployments.local import ROOT
from examples.grpo import rollout
from examples.grpo.data_server import DataServer, read_data
from examples.grpo.endpoint import Endpoint, EndpointError
from examples.grpo.policy import Policy
from examples.grpo.rollout import RolloutWorker
from examples.grpo.sampler import EndpointWeights
from examples.grpo.samplers import Samplers
from examples.tests.grpo.fake_endpoint import FakeEndpoint
from examples.tests.grpo.fake_sampler import FakeSampler
from examples.tests.grpo.test_rollout import Letters
from tests.fake_service import free_port

WEIGHTS = [f"tinker://model_1/sampler_weights/step-{step}" for step in range(3)]


@pytest.fixture(autouse=True)
def no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = type("Fake", (), {"from_pretrained": staticmethod(lambda _: Letters())})
    monkeypatch.setattr(rollout, "AutoTokenizer", fake)


def sampled(
    url: str,
    prompts: Sequence[list[int]],
    step: int = 1,
    tokens: int = 8,
    timeout_s: float = 60,
) -> list[tinker.SampleResponse]:
    asked = tinker.SamplingParams(max_tokens=tokens, temperature=1.0, seed=5, stop=[2])
    with closing(Samplers(url, timeout_s)) as samplers:
        pending = [
            samplers.sample(WEIGHTS[step], tinker.ModelInput.from_ints(prompt), 4, asked)
            for prompt in prompts
        ]
        return [future.result() for future in pending]


def test_a_group_is_one_request_for_the_current_weights(tmp_path: Path) -> None:
    items = DataServer(0, read_data("")).batch(0, 2)
    with FakeEndpoint(tmp_path) as endpoint, FakeSampler(WEIGHTS) as server:
        worker = RolloutWorker(endpoint.url, "any", "rule", samplers=server.url)

        groups = worker.sample(items, WEIGHTS[2], 0, [0, 4], 4, 40)

    assert [len(group.samples) for group in groups] == [4, 4]
    assert (groups[0].samples[0].tokens, groups[0].samples[0].logprobs) == ([1, 2], [-1.0, -0.5])
    asked = sorted((each["model"], each["n"], each["seed"]) for each in server.asked)
    assert asked == [(WEIGHTS[2], 4, 0), (WEIGHTS[2], 4, 4)]


def test_a_server_downloads_what_the_policy_saved(tmp_path: Path) -> None:
    with FakeEndpoint(tmp_path / "endpoint") as endpoint:
        policy = Policy(Endpoint(endpoint.url), "fake")
        saved = [policy.save_for_sampler(f"step-{step}") for step in range(6)]
        weights = EndpointWeights(endpoint.url, tmp_path / "adapters")

        found = [asyncio.run(weights.resolve_lora("base", path)) for path in saved]
        absent = [saved[0] + "0", "another-model"]
        assert [asyncio.run(weights.resolve_lora("base", name)) for name in absent] == [None] * 2

    assert [each.lora_name for each in found if each] == saved
    present = [Path(each.lora_path, "adapter_config.json").exists() for each in found if each]
    assert present == [False, False, True, True, True, True]
    assert asyncio.run(weights.resolve_lora("base", saved[5])) is None  # the endpoint is gone


def test_a_server_that_is_away_is_waited_for() -> None:
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sampled, f"http://127.0.0.1:{port}", [[1]])
        time.sleep(1.0)
        with FakeSampler(WEIGHTS, port):
            assert len(answer.result()[0].sequences) == 4


def test_weights_that_no_server_has_are_an_error_in_the_end() -> None:
    with FakeSampler(WEIGHTS[:1]) as server, pytest.raises(EndpointError, match=r"404.*step-2"):
        sampled(server.url, [[1]], step=2, timeout_s=0.1)


def test_a_refused_request_is_an_error_at_once() -> None:
    with FakeSampler(WEIGHTS) as server, pytest.raises(EndpointError, match=r"400.*max_tokens"):
        sampled(server.url, [[1]], tokens=0)


SYSTEM = list(range(100, 140))
PROMPTS = [[*SYSTEM, *range(1000 * at, 1000 * at + 20)] for at in range(1, 17)]


@pytest.fixture(scope="module")
def router_python() -> str:
    python = os.environ.get("SKYPILOT_PYTHON")
    if not python:
        pytest.skip("SKYPILOT_PYTHON names no Python with requirements/sky.txt installed")
    return python


@contextmanager
def router(python: str, *urls: str) -> Iterator[str]:
    """The router as ``skypilot.yaml`` starts it."""
    launch = (ROOT / "examples" / "grpo" / "skypilot.yaml").read_text().partition("--policy ")[2]
    flags = launch.partition("--worker-urls")[0].replace("\\", " ").split()
    start = [python, "-m", "vllm_router.launch_router", "--prometheus-port", str(free_port())]
    port = free_port()
    process = subprocess.Popen(
        [*start, "--port", str(port), "--policy", *flags, "--worker-urls", *urls],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{url}/health"))
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


@contextmanager
def two_behind_a_router(router_python: str) -> Iterator[tuple[FakeSampler, FakeSampler, str]]:
    with (
        FakeSampler(WEIGHTS, delay_s=0.2) as first,
        FakeSampler(WEIGHTS, delay_s=0.2) as second,
        router(router_python, first.url, second.url) as url,
    ):
        yield first, second, url


def until(done: Callable[[], bool], timeout_s: float = 90) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_the_router_spreads_the_prompts_of_a_step(router_python: str) -> None:
    with two_behind_a_router(router_python) as (first, second, url):
        sampled(url, PROMPTS, step=1)
        sampled(url, PROMPTS, step=2)

    for step in (1, 2):
        shares = [
            [each["prompt"] for each in server.asked if each["model"] == WEIGHTS[step]]
            for server in (first, second)
        ]
        assert sorted(shares[0] + shares[1]) == PROMPTS
        assert min(map(len, shares)) >= 5


@pytest.mark.slow
def test_the_router_passes_over_a_server_until_it_is_back(router_python: str) -> None:
    with two_behind_a_router(router_python) as (_, second, url):
        sampled(url, PROMPTS)
        assert second.asked
        second.stop()

        assert len(sampled(url, PROMPTS)) == len(PROMPTS)
        with FakeSampler(WEIGHTS, second.port, delay_s=0.2) as back:
            until(lambda: bool(sampled(url, PROMPTS) and back.asked))
