"""Sampling at the endpoint or at vLLM servers, alone and behind a real ``vllm-router``; judging.

The router is in SkyPilot's environment: ``SKYPILOT_PYTHON``, which `make test-all` builds and sets.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

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
from examples.grpo.samples import Group, Sample
from examples.tests.grpo.fake_endpoint import FakeEndpoint
from examples.tests.grpo.fake_sampler import FakeSampler
from tests.fake_service import FakeService, free_port

WEIGHTS = [f"tinker://model_1/sampler_weights/step-{step}" for step in range(3)]


class Letters:
    """A tokenizer of bytes."""

    eos_token_id = 2

    def apply_chat_template(self, conversation: Any, **_: Any) -> list[int]:
        return list(conversation[-1]["content"].encode())

    def decode(self, tokens: list[int], **_: Any) -> str:
        return "".join(chr(token) for token in tokens)


@pytest.fixture(autouse=True)
def no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = type("Fake", (), {"from_pretrained": staticmethod(lambda _: Letters())})
    monkeypatch.setattr(rollout, "AutoTokenizer", fake)


def groups() -> list[Group]:
    texts = ("#### 24", "#### 25")
    return [Group(0, "What?", 24, [1], 0, [Sample([1], [0.0], text, 0) for text in texts])]


def verdicts(worker: RolloutWorker) -> list[float | None]:
    return [sample.reward for group in worker.judge(groups()) for sample in group.samples]


def test_a_judge_that_is_gone_leaves_samples_undecided_and_comes_back() -> None:
    gone = threading.Event()
    with FakeService() as service:
        service.before_reply = lambda _: gone_away() if gone.is_set() else None
        judge = {"app": None, "url": service.url, "timeout_s": 1.0}
        worker = RolloutWorker("http://127.0.0.1:1", "any", "judge", judge)

        assert verdicts(worker) == [1.0, 0.0]
        gone.set()
        assert verdicts(worker) == [None, None]
        gone.clear()
        end = time.monotonic() + 30  # the circuit closes at a probe's answer
        while (found := verdicts(worker)) == [None, None] and time.monotonic() < end:
            time.sleep(0.1)
        assert found == [1.0, 0.0]


def gone_away() -> Any:
    raise ConnectionAbortedError


def test_samples_come_in_groups_in_order(tmp_path: Path) -> None:
    with FakeEndpoint(tmp_path) as fake:
        weights = Policy(Endpoint(fake.url), "fake").save_for_sampler("step-0")
        worker = RolloutWorker(fake.url, "any", "rule")
        items = DataServer(0, read_data("")).batch(0, 2)

        sampled = worker.sample(items, weights, 0, [0, 4], 4, 40)

    assert [group.problem for group in sampled] == [index for index, _ in items]
    assert [[sample.seed for sample in group.samples] for group in sampled] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    assert all(len(s.tokens) == len(s.logprobs) > 0 for g in sampled for s in g.samples)


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


def test_a_request_that_is_refused_or_has_no_weights_is_an_error() -> None:
    with FakeSampler(WEIGHTS[:1]) as server:
        with pytest.raises(EndpointError, match=r"404.*step-2"):
            sampled(server.url, [[1]], step=2, timeout_s=0.1)
        with pytest.raises(EndpointError, match=r"400.*max_tokens"):
            sampled(server.url, [[1]], step=0, tokens=0)


SYSTEM = list(range(100, 140))
PROMPTS = [[*SYSTEM, *range(1000 * at, 1000 * at + 20)] for at in range(1, 17)]


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while not done():
        assert time.monotonic() < end
        time.sleep(0.2)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.slow
def test_the_router_spreads_a_steps_prompts_and_passes_over_a_server_until_it_is_back() -> None:
    python = os.environ.get("SKYPILOT_PYTHON")
    if not python:
        pytest.skip("SKYPILOT_PYTHON names no Python with requirements/sky.txt installed")
    launch = (ROOT / "examples" / "grpo" / "skypilot.yaml").read_text().partition("--policy ")[2]
    flags = launch.partition("--worker-urls")[0].replace("\\", " ").split()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    start = [python, "-m", "vllm_router.launch_router", "--prometheus-port", str(free_port())]
    with FakeSampler(WEIGHTS, delay_s=0.2) as first, FakeSampler(WEIGHTS, delay_s=0.2) as second:
        workers = ["--worker-urls", first.url, second.url]
        router = subprocess.Popen([*start, "--port", str(port), "--policy", *flags, *workers])
        try:
            until(lambda: answers(f"{url}/health"))
            sampled(url, PROMPTS)
            shares = [[each["prompt"] for each in server.asked] for server in (first, second)]
            assert sorted(shares[0] + shares[1]) == PROMPTS
            assert min(map(len, shares)) >= 5

            second.stop()
            assert len(sampled(url, PROMPTS)) == len(PROMPTS)
            with FakeSampler(WEIGHTS, second.port, delay_s=0.2) as back:
                until(lambda: bool(sampled(url, PROMPTS) and back.asked))
        finally:
            router.terminate()
            router.wait(timeout=30)
