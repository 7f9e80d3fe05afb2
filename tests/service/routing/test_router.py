from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from ray.serve._private.common import DeploymentID
from ray.serve.config import RequestRouterConfig
from ray.serve.experimental.consistent_hash_router import ConsistentHashRouter

from reward_serve.app import deployment_options
from reward_serve.config.app import AppConfig
from reward_serve.routing.placement import known_replicas
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


@pytest.mark.parametrize("known", [replicas(3), replicas(3)[::-1]], ids=["known so", "or so"])
async def test_a_session_that_is_a_replicas_id_goes_to_it_and_else_to_the_others(
    router: GroupRouter, known: list[Any]
) -> None:
    asked = asking("r1")
    first, others = await router.choose_replicas(known, asked)
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


@pytest.mark.parametrize("session", ["a-user", "r2", "0"])  # r2 is gone
async def test_any_other_session_goes_by_serves_own_ring(
    router: GroupRouter, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    async def ring(*_: object) -> list[list[Any]]:
        return [["by the ring"]]

    monkeypatch.setattr(ConsistentHashRouter, "choose_replicas", ring)
    assert await router.choose_replicas(replicas(2), asking(session)) == [["by the ring"]]


async def test_no_replicas_are_no_choice(router: GroupRouter) -> None:
    assert not any(await router.choose_replicas([], asking("r1")))
    assert not any(await router.choose_replicas([], asking("")))


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


@pytest.mark.parametrize(
    ("most", "affinity", "routed"), [(1, True, False), (4, True, True), (4, False, False)]
)
def test_deployments_of_several_replicas_have_the_router(
    most: int, affinity: bool, routed: bool
) -> None:
    fields = {"autoscaling": {"max_replicas": most}, "affinity": affinity}
    args = {"models": [{"name": "r", "kind": "rule", **fields}]}
    options = deployment_options(AppConfig.parse(args).models[0])

    assert ("request_router_config" in options) is routed
    if routed:
        config = RequestRouterConfig(**options["request_router_config"])
        assert config.get_request_router_class().__name__ == "GroupRouter"
