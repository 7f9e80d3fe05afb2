"""How calls by handle fail; what they do when all is well stands in tests/integration."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from ray import serve
from ray.exceptions import RayActorError

from reward_serve.client import Client, RewardClient, ServiceUnavailableError
from reward_serve.routing.calls import GroupedHandle
from reward_serve.routing.placement import tell_replicas
from reward_serve.schema import ScoreResult, Status
from reward_serve.version import __version__

ASKED = {"response": "#### 18", "reference": "18"}


class Call:
    """A call that ends as it is told."""

    def __init__(self, end: Any) -> None:
        self._end = end
        self.cancelled = False

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return self.result(0)

    def result(self, timeout_s: float) -> Any:
        if isinstance(self._end, BaseException):
            raise self._end
        return self._end

    def cancel(self) -> None:
        self.cancelled = True


class Handle:
    """A deployment's handle, of replicas that end calls as they are told."""

    app_name, deployment_name = "reward", "judge"

    def __init__(self, *ends: Any, session: str = "0") -> None:
        self._ends = ends
        self._session = session
        self.score_batch = self

    def options(self, session_id: str = "0", **_: object) -> Handle:
        return Handle(*self._ends, session=session_id)

    def remote(self, items: list[Any]) -> Call:
        end = self._ends[int(self._session)]
        return Call(end if isinstance(end, BaseException) else end(items))


def client_of(*ends: Any) -> RewardClient:
    """A client whose calls to each replica end so."""
    client = RewardClient("reward")
    client._handle = GroupedHandle(Handle(*ends))
    return client


@pytest.fixture
def two_replicas() -> Iterator[None]:
    tell_replicas("reward", "judge", 2)
    yield
    tell_replicas("reward", "judge", 1)


def right(items: list[Any]) -> list[Any]:
    """Every item is, and has its id back."""
    return [{"status": "ok", "score": 1.0, "id": item["id"]} for item in items]


ASKED_OF_BOTH = [{**ASKED, "group": f"g{n // 4}", "id": str(n)} for n in range(32)]


async def awaited(client: RewardClient, asked: list[Any]) -> list[ScoreResult]:
    return await client.ascore_batch(asked)


async def in_a_thread(client: RewardClient, asked: list[Any]) -> list[ScoreResult]:
    return await asyncio.to_thread(client.score_batch, asked)


either_way = pytest.mark.parametrize("ask", [awaited, in_a_thread])


@either_way
@pytest.mark.usefixtures("two_replicas")
async def test_a_batch_is_split_over_the_replicas_and_joined_in_order(ask: Any) -> None:
    taken: list[set[str]] = []

    def take(items: list[Any]) -> list[Any]:
        taken.append({item["group"] for item in items})
        return right(items)

    results = await ask(client_of(take, take), ASKED_OF_BOTH)

    assert [result.id for result in results] == [str(n) for n in range(32)]
    first, second = taken
    assert len(first) == len(second) == 4
    assert not first & second


@either_way
@pytest.mark.usefixtures("two_replicas")
async def test_what_one_replica_lost_is_failures_and_the_others_part_stands(ask: Any) -> None:
    results = await ask(client_of(right, RayActorError()), ASKED_OF_BOTH)

    assert [result.id for result in results] == [str(n) for n in range(32)]
    assert Counter(result.status for result in results) == {Status.OK: 16, Status.ERROR: 16}
    assert {r.score for r in results if r.status is Status.ERROR} == {None}


ENDS = [RayActorError(), grpc.RpcError("INTERNAL"), asyncio.CancelledError()]


@pytest.mark.parametrize("end", ENDS, ids=["ray", "grpc", "cancelled by the replica"])
async def test_a_call_that_is_lost_is_the_services_absence(end: BaseException) -> None:
    with pytest.raises(ServiceUnavailableError, match="app 'reward'"):
        await client_of(end).ascore(ASKED)
    with pytest.raises(ServiceUnavailableError):
        await client_of(end).ascore_batch([ASKED])


@pytest.mark.parametrize("end", ENDS[:2], ids=["ray", "grpc"])
def test_a_thread_is_told_the_same(end: BaseException) -> None:
    with pytest.raises(ServiceUnavailableError):
        client_of(end).score(ASKED)


@pytest.mark.parametrize("end", ENDS, ids=["ray", "grpc", "cancelled by the replica"])
async def test_no_caller_of_the_shared_client_hangs(end: BaseException) -> None:
    client = Client(client_of(end), on_failure="none", max_attempts=1)
    async with asyncio.timeout(5):
        result = await client.ascore(ASKED)

    assert (result.status, result.score) == (Status.ERROR, None)


@pytest.mark.parametrize(
    ("about", "asked", "found"),
    [
        ({"models": ["judge", "rule"]}, None, ("judge", "door")),  # a service without gateways
        ({"models": ["judge"], "applications": {"judge": "other"}}, "judge", ("judge", "other")),
        ({"models": ["judge"], "aliases": {"gpt": "judge"}}, "gpt", ("judge", "door")),
    ],
)
def test_a_model_is_found_where_its_application_says(
    about: dict[str, Any],
    asked: str | None,
    found: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door({**about, "version": __version__}))
    monkeypatch.setattr(serve, "get_deployment_handle", Found)
    handle = RewardClient("door", model=asked)._connected()
    assert (handle._handle.name, handle.application) == found


def test_a_model_that_is_not_there_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"models": ["judge"], "version": __version__}
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(about))
    with pytest.raises(ServiceUnavailableError, match="choose of judge") as refusal:
        RewardClient("door", model="jugde").score(ASKED)
    assert not refusal.value.retryable


class Door:
    """An ingress that says of itself what it is told to."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.models = self
        self._about = about

    def remote(self) -> Call:
        return Call(self._about)


class Found:
    """A deployment's handle, by where it was looked for."""

    def __init__(self, name: str, app_name: str) -> None:
        self.name, self.app_name = name, app_name

    def options(self, **_: Any) -> Found:
        return self
