from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve.config import RequestRouterConfig
from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from reward_serve.app import deployment_options
from reward_serve.config.app import parse_config
from reward_serve.routing.router import GroupRouter


def replicas(count: int) -> list[Any]:
    ids = [SimpleNamespace(unique_id=f"r{n}") for n in range(count)]
    return [SimpleNamespace(replica_id=one) for one in ids]


def asking(session: str) -> Any:
    return SimpleNamespace(
        metadata=SimpleNamespace(session_id=session),
        routing_context=SimpleNamespace(should_backoff=False),
    )


@pytest.fixture
def router() -> GroupRouter:
    return object.__new__(GroupRouter)


async def test_numbered_sessions_take_equal_parts_in_whatever_order_replicas_are_known(
    router: GroupRouter,
) -> None:
    known = replicas(3)
    first: Counter[str] = Counter()
    for session in map(str, range(12)):
        ranks = await router.choose_replicas(known, asking(session))
        again = await router.choose_replicas(known[::-1], asking(session))
        assert ranks == again
        assert len(ranks) == 3
        first[ranks[0][0].replica_id.unique_id] += 1
    assert set(first.values()) == {4}


async def test_a_call_of_no_session_has_two_replicas_to_choose_of(router: GroupRouter) -> None:
    asked = asking("")
    seen = set()
    for _ in range(100):
        (candidates,) = await router.choose_replicas(replicas(4), asked)
        assert len(candidates) == 2
        seen |= {one.replica_id.unique_id for one in candidates}
    assert len(seen) == 4
    assert asked.routing_context.should_backoff
    assert len((await router.choose_replicas(replicas(1), asked))[0]) == 1


async def test_any_other_session_goes_by_serves_own_ring(
    router: GroupRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ring(*_: object) -> list[list[Any]]:
        return [["by the ring"]]

    monkeypatch.setattr(ConsistentHashRouter, "choose_replicas", ring)
    assert await router.choose_replicas(replicas(2), asking("a-user")) == [["by the ring"]]


async def test_no_replicas_are_no_choice(router: GroupRouter) -> None:
    assert not any(await router.choose_replicas([], asking("3")))
    assert not any(await router.choose_replicas([], asking("")))


@pytest.mark.parametrize(
    ("most", "affinity", "routed"), [(1, True, False), (4, True, True), (4, False, False)]
)
def test_deployments_of_several_replicas_have_the_router(
    most: int, affinity: bool, routed: bool
) -> None:
    fields = {"autoscaling": {"max_replicas": most}, "affinity": affinity}
    args = {"models": [{"name": "r", "kind": "rule", **fields}]}
    options = deployment_options(parse_config(args).models[0])

    assert ("request_router_config" in options) is routed
    if routed:
        config = RequestRouterConfig(**options["request_router_config"])
        assert config.get_request_router_class().__name__ == "GroupRouter"
