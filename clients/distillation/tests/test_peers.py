"""Trainers' requests to a teacher, answered by a deployed one: right numbers, or an exception."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from clients.distillation.tests.conftest import MAX_LEN, Expected, Sequence
from clients.distillation.tests.faults import Faults
from clients.distillation.tests.peers import PEERS
from reward_serve_slime import ask_teacher, post_process_logprobs
from tests.fake_service import dead_url

names = pytest.mark.parametrize("name", sorted(PEERS))


def outcome(name: str, url: str, ids: list[int], scored: int) -> list[float] | Exception:
    try:
        return PEERS[name][0](url, ids, scored)
    except Exception as error:
        return error


@names
def test_a_trainer_reads_the_teachers_numbers(
    name: str, url: str, sequences: list[Sequence], expected: Expected
) -> None:
    for prompt, response in sequences[:5]:
        numbers = PEERS[name][0](url, prompt + response, len(response))
        assert numbers == expected(prompt, response)


@names
def test_a_fault_is_an_exception_and_no_number(
    name: str, url: str, sequences: list[Sequence], expected: Expected
) -> None:
    absent = 0
    with Faults(url) as proxy:
        for prompt, response in sequences:
            numbers = outcome(name, proxy.url, prompt + response, len(response))
            if isinstance(numbers, Exception):
                absent += 1
            else:
                assert numbers == expected(prompt, response)
    assert proxy.faults >= 3
    assert absent == (0 if PEERS[name][1] else proxy.faults)


@names
@pytest.mark.parametrize(
    "ids",
    [pytest.param([10_000_000, 1, 2], id="unknown token"), pytest.param([5] * 600, id="too long")],
)
def test_what_the_teacher_refuses_is_an_exception(name: str, url: str, ids: list[int]) -> None:
    assert len(ids) == 3 or len(ids) > MAX_LEN
    assert isinstance(outcome(name, url, ids, 2), Exception)


def test_overload_is_an_exception_and_crosses_no_sequences(
    url: str, sequences: list[Sequence], expected: Expected
) -> None:
    repeated = sequences * 6
    with ThreadPoolExecutor(len(repeated)) as threads:
        jobs = [threads.submit(outcome, "slime", url, p + r, len(r)) for p, r in repeated]
    refused = 0
    for (prompt, response), job in zip(repeated, jobs, strict=True):
        numbers = job.result()
        if isinstance(numbers, requests.HTTPError):
            assert numbers.response.status_code == 503
            refused += 1
        else:
            assert numbers == expected(prompt, response)
    assert 0 < refused < len(repeated)


def slime_samples(sequences: list[Sequence]) -> list[Any]:
    """A group of slime's samples, whose rewards the adapter has asked."""
    samples = [
        SimpleNamespace(tokens=p + r, response_length=len(r), group_index=0, remove_sample=False)
        for p, r in sequences
    ]
    for sample, reward in zip(samples, asyncio.run(ask_teacher(None, samples)), strict=True):
        sample.get_reward_value = lambda args, reward=reward: reward
    assert post_process_logprobs(None, samples) == ([0.0] * len(samples),) * 2
    return samples


def test_the_adapter_of_slime_asks_again(
    url: str, sequences: list[Sequence], expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Faults(url) as proxy:
        monkeypatch.setenv("REWARD_SERVE_URL", proxy.url)
        samples = slime_samples(sequences)
    assert proxy.faults >= 3
    for (prompt, response), sample in zip(sequences, samples, strict=True):
        numbers = sample.teacher_log_probs.tolist()
        assert numbers == expected(prompt, response)
        assert not sample.remove_sample


def test_the_adapter_of_slime_masks_what_has_no_numbers(
    sequences: list[Sequence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", dead_url())
    monkeypatch.setenv("REWARD_SERVE_TIMEOUT_S", "1")
    for (_, response), sample in zip(sequences, slime_samples(sequences), strict=True):
        assert sample.remove_sample
        assert sample.teacher_log_probs.tolist() == [0.0] * len(response)
