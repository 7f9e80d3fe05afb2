from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from ray.serve._private.common import DeploymentID
from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from reward_serve.routing.dispatch import known_replicas
from reward_serve.routing.router import GroupRouter


class Id(NamedTuple):
    """A replica's, as Ray has it."""

    unique_id: str
    deployment_id: Any


def replicas(count: int) -> list[Any]:
    deployment = DeploymentID(name="judge", app_name="routed")
    return [SimpleNamespace(replica_id=Id(f"r{n}", deployment)) for n in range(count)]


def asking(session: str) -> Any:
    return SimpleNamespace(
        metadata=SimpleNamespace(session_id=session),
        routing_context=SimpleNamespace(should_backoff=False),
    )


@pytest.fixture
def router() -> GroupRouter:
    return object.__new__(GroupRouter)


async def test_a_session_that_is_a_replicas_id_goes_to_it_and_else_to_the_others(
    router: GroupRouter,
) -> None:
    asked = asking("r1")
    first, others = await router.choose_replicas(replicas(3), asked)
    assert [one.replica_id.unique_id for one in first] == ["r1"]
    assert {one.replica_id.unique_id for one in others} == {"r0", "r2"}
    assert asked.routing_context.should_backoff


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
    assert not any(await router.choose_replicas([], asked))


async def test_a_session_whose_replica_is_gone_goes_by_serves_own_ring(
    router: GroupRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ring(*_: object) -> list[list[Any]]:
        return [["by the ring"]]

    monkeypatch.setattr(ConsistentHashRouter, "choose_replicas", ring)
    assert await router.choose_replicas(replicas(2), asking("r2")) == [["by the ring"]]


def test_the_replicas_that_there_are_are_noted(
    router: GroupRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def update(self: Any, replicas: list[Any]) -> None:
        self._replicas = {one.replica_id: one for one in replicas}

    monkeypatch.setattr(ConsistentHashRouter, "update_replicas", update)
    monkeypatch.setattr(ConsistentHashRouter, "curr_replicas", property(lambda s: s._replicas))
    router._replicas = {}
    for count in (2, 3, 0):
        router.update_replicas(replicas(count))
        assert known_replicas("routed", "judge") == tuple(f"r{n}" for n in range(count))
    assert known_replicas("routed", "another") == ()
