"""Serve's router, by itself; `tests/service/integration/test_affinity.py` runs it in Ray."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from reward_serve.routing import dispatch
from reward_serve.routing.router import GroupRouter


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


def test_the_calls_that_a_replica_says_it_has_are_known_to_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ConsistentHashRouter, "update_replicas", lambda *_: None)
    monkeypatch.setattr(ConsistentHashRouter, "on_new_queue_len_info", lambda *_: None)
    seen: dict[str, tuple[int, float]] = {}
    monkeypatch.setattr(dispatch, "_calls_seen", seen)
    router = object.__new__(GroupRouter)
    router._replicas = {}
    router.on_new_queue_len_info(replica("r0").replica_id, 5)  # in a process without the package
    router.update_replicas([])
    router.on_new_queue_len_info(replica("r1").replica_id, 7)
    assert {name: calls for name, (calls, _) in seen.items()} == {"r1": 7}


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
