"""Serve's router, by itself; `tests/service/integration/test_affinity.py` runs it in Ray."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from reward_serve.routing import dispatch
from reward_serve.routing.router import GroupRouter

JUDGE = DeploymentID("judge", "app")


@pytest.mark.parametrize(
    ("session", "first", "others"),
    [
        pytest.param("r1", {"r1"}, {"r0", "r2", "r3"}, id="of a replica"),
        pytest.param("gone", {"by the ring"}, set(), id="of a replica that is gone"),
    ],
)
async def test_a_session_goes_to_its_replica_and_else_by_serves_own_ring(
    session: str, first: set[str], others: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ring(*_: object) -> list[list[Any]]:
        return [[replica("by the ring")]]

    monkeypatch.setattr(ConsistentHashRouter, "choose_replicas", ring)
    assert await choose(session, 4) == [first, *([others] if others else [])]


async def test_a_call_of_no_session_has_two_replicas_to_choose_of() -> None:
    choices = [await choose("", 4) for _ in range(100)]
    assert {len(only) for (only,) in choices} == {2}
    assert set().union(*(only for (only,) in choices)) == {"r0", "r1", "r2", "r3"}
    assert (await choose("", 1), await choose("", 0)) == ([{"r0"}], [set()])


def test_callers_know_how_many_calls_a_replica_has_and_that_one_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, tuple[int, float]] = {}
    monkeypatch.setattr(dispatch, "_calls_seen", seen)
    monkeypatch.setattr(dispatch, "_known", {})
    monkeypatch.setattr(ConsistentHashRouter, "on_new_queue_len_info", lambda *_: None)
    monkeypatch.setattr(ConsistentHashRouter, "update_replicas", update)
    monkeypatch.setattr(ConsistentHashRouter, "on_replica_actor_died", died)
    router, ids = object.__new__(GroupRouter), [ReplicaID(f"r{n}", JUDGE) for n in range(3)]
    router._replicas = {}
    router.on_new_queue_len_info(ids[0], 5)  # before it knows whether this package is there
    router.update_replicas(ids)
    for calls, name in enumerate(ids):
        router.on_new_queue_len_info(name, calls)
    assert {name: calls for name, (calls, _) in seen.items()} == {"r0": 0, "r1": 1, "r2": 2}
    router.on_replica_actor_died(ids[1])
    assert dispatch.known_replicas("app", "judge") == ("r0", "r2")
    assert set(seen) == {"r0", "r2"}


def update(router: Any, replicas: list[Any]) -> None:
    router._replicas = dict.fromkeys(replicas)


def died(router: Any, name: Any) -> None:
    del router._replicas[name]


def replica(name: str) -> Any:
    return SimpleNamespace(replica_id=SimpleNamespace(unique_id=name))


async def choose(session: str, count: int) -> list[set[str]]:
    """The ids of the replicas to try, in order, of this many."""
    asked: Any = SimpleNamespace(
        metadata=SimpleNamespace(session_id=session),
        routing_context=SimpleNamespace(should_backoff=False),
    )
    router = object.__new__(GroupRouter)
    ranked = await router.choose_replicas([replica(f"r{n}") for n in range(count)], asked)
    return [{candidate.replica_id.unique_id for candidate in rank} for rank in ranked]
