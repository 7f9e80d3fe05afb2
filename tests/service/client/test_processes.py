"""Clients of processes that fork, and of callers who are interrupted."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import ray

from reward_serve.client import NotConnectedError, RewardClient, connect
from reward_serve.client.transport import own_loop
from tests.fake_service import FakeService

FORK = multiprocessing.get_context("fork")
RIGHT = {"response": "#### 18", "reference": "18"}


def after_fork(work: Callable[[], object], within_s: float = 20.0) -> None:
    """Run ``work`` in a forked process with what this one has made; not pickled."""
    process = FORK.Process(target=work)
    process.start()
    process.join(within_s)
    hung = process.is_alive()
    process.kill()
    assert not hung, "the forked process hangs"
    assert process.exitcode == 0


def test_a_forked_process_has_to_connect(service: FakeService) -> None:
    client = connect(url=service.url, timeout_s=10)
    client.score(RIGHT)
    before = service.connections

    def work() -> None:
        with pytest.raises(NotConnectedError, match=r"before fork.* call reward_serve.connect"):
            client.score(RIGHT)
        assert connect(url=service.url, timeout_s=10).score(RIGHT).score == 1.0

    after_fork(work)
    assert client.score(RIGHT).score == 1.0
    assert service.connections == before + 1


def test_by_handle_a_forked_process_refuses_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)

    def work() -> None:
        with pytest.raises(NotConnectedError, match=r"was forked from one .* spawn"):
            RewardClient("reward").score(RIGHT)

    after_fork(work)


def test_an_interrupted_client_works(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect(url=service.url, timeout_s=5)
    loop = own_loop()
    wake = loop.call_soon_threadsafe

    def interrupted(*arguments: Any) -> None:
        monkeypatch.setattr(loop, "call_soon_threadsafe", wake)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.score(RIGHT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(client.score, RIGHT).result(timeout=30).score == 1.0
