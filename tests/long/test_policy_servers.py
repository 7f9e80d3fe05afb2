"""Serve's own router before policy servers; their engine is a stand-in that counts."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray import serve

from examples.grpo import servers


class Stub:
    """Returns its name, unless the weights say that it dies."""

    def __init__(self, *_: Any) -> None:
        self._name = serve.get_replica_context().replica_id.unique_id

    async def sample(self, weights: str, *_: Any) -> tuple[str, list[Any]]:
        if weights == self._name:
            os._exit(1)
        return self._name, []


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(servers, "PolicyServer", Stub)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        servers.start(2, None, "", {"num_cpus": 0, "resources": None})
        yield serve.get_app_handle(servers.APP)
    finally:
        serve.shutdown()
        ray.shutdown()


def test_a_problem_keeps_its_server_and_others_serve_it_while_that_one_is_lost(handle: Any) -> None:
    def sampled(weights: str = "") -> dict[int, str]:
        asked = {problem: servers.Asked(handle, problem, weights) for problem in range(24)}
        return {problem: future.result(60)[0] for problem, future in asked.items()}

    first = sampled()
    shares = [list(first.values()).count(name) for name in set(first.values())]
    assert len(shares) == 2 and min(shares) >= 5
    assert sampled() == first
    lost = first[0]
    # Its server dies with the request, which is sent again to the other, as are its other problems.
    after = sampled(lost)
    assert lost not in after.values()
    kept = [problem for problem, name in first.items() if name != lost]
    assert [after[problem] for problem in kept] == [first[problem] for problem in kept]
    end = time.monotonic() + 60
    while len(set(sampled().values())) < 2:  # Serve replaces it
        assert time.monotonic() < end
