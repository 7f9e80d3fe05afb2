"""Clients in processes that fork, spawn and pickle."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest
import ray

from reward_serve.client import (
    Client,
    HttpRewardClient,
    NotConnectedError,
    RewardClient,
    connect,
)
from reward_serve.client.transport import own_loop
from tests.fake_service import FakeService
from tests.tiers import share

FORK = multiprocessing.get_context("fork")
SPAWN = multiprocessing.get_context("spawn")
inherited: Client
RIGHT = {"response": "#### 18", "reference": "18"}


def asked(n: int) -> dict[str, Any]:
    """A request whose score depends on its number; every other one has an id."""
    request = {"response": f"#### {n}", "reference": str(n - n % 3 % 2)}
    return request if n % 2 else {**request, "id": f"mine {n}"}


def wrong(client: Client, numbers: range) -> list[Any]:
    """The answers that are not their question's: by batch, by thread, and in an event loop."""
    third = len(numbers) // 3
    parts = numbers[:third], numbers[third : 2 * third], numbers[2 * third :]

    async def awaited() -> list[Any]:
        at_once = asyncio.Semaphore(16)

        async def ask(n: int) -> Any:
            async with at_once:
                return await client.ascore(asked(n))

        return await asyncio.gather(*map(ask, parts[2]))

    with ThreadPoolExecutor(4) as pool:
        results = [
            *client.score_batch([asked(n) for n in parts[0]]),
            *pool.map(client.score, map(asked, parts[1])),
            *asyncio.run(awaited()),
        ]
    expected = [(None if n % 2 else f"mine {n}", float(n % 3 % 2 == 0)) for n in numbers]
    found = [(result.id, result.score) for result in results]
    return [pair for pair in zip(expected, found, strict=True) if pair[0] != pair[1]]


def inherit(client: Client) -> None:
    global inherited
    inherited = client


def wrong_of_inherited(numbers: range) -> list[Any]:
    return wrong(inherited, numbers)


def in_a_child(client: Client, each: int) -> list[Any]:
    """``wrong`` of a spawned process, to which the client is sent."""
    with ProcessPoolExecutor(1, SPAWN, inherit, (client,)) as pool:
        return pool.submit(wrong_of_inherited, range(each, 2 * each)).result(timeout=60)


@pytest.mark.parametrize("make", [lambda url: connect(url=url), HttpRewardClient])
def test_thousands_of_answers_are_their_own_questions(
    service: FakeService, make: Callable[[str], Client]
) -> None:
    client = make(service.url)
    assert wrong(client, range(300)) == []

    with ThreadPoolExecutor(1) as pool:
        each = share(600, 60)
        spawned = pool.submit(in_a_child, client, each)
        assert wrong(client, range(10_000, 10_000 + each)) == []
        assert spawned.result() == []


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


def test_a_pickled_client_is_its_settings(service: FakeService) -> None:
    client = HttpRewardClient(service.url, "key", 3.0, on_failure="rule", max_batch=2)
    copy = pickle.loads(pickle.dumps(client))

    assert copy.score(RIGHT).score == 1.0
    assert (type(copy), copy.url) == (HttpRewardClient, service.url)
    assert copy._settings == client._settings
    (call,) = service.calls
    assert call.headers["authorization"] == "Bearer key"
    assert 2.5 < call.body["requests"][0]["timeout_s"] <= 3.0


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_client_works_after_an_interrupt_while_submitting(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, scheduled: bool
) -> None:
    client = connect(url=service.url, timeout_s=5)
    loop = own_loop()
    wake = loop.call_soon_threadsafe

    def interrupted(*arguments: Any) -> None:
        monkeypatch.setattr(loop, "call_soon_threadsafe", wake)
        if scheduled:
            wake(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.score(RIGHT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(client.score, RIGHT).result(timeout=30).score == 1.0


def test_event_loops_share_connections_which_end_with_the_client(service: FakeService) -> None:
    code = f"""
import asyncio, gc, os
from reward_serve.client import HttpRewardClient

gc.disable()
client = HttpRewardClient({service.url!r})
for _ in range(50):
    asyncio.run(client.ascore({RIGHT}))
print(len(os.listdir("/proc/self/fd")))
client.close()
"""
    command = [sys.executable, "-X", "dev", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert int(done.stdout) < 20
    assert "ResourceWarning" not in done.stderr
