"""How calls by handle fail; what they do when all is well stands in tests/service/integration."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import ray
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import RayServeException

from reward_serve.client import (
    Client,
    NotConnectedError,
    RewardClient,
    ServiceUnavailableError,
    connect,
)
from reward_serve.client.handle import HandleTransport
from reward_serve.explanation import Explanation
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import GroupResult, ScoreResult, Status
from reward_serve.version import __version__
from tests.fake_handle import Call, End, Handle, replicas, right
from tests.fake_service import FakeService

ASKED = {"response": "#### 18", "reference": "18"}
ASKED_OF_BOTH = [{**ASKED, "group": f"g{n // 4}", "id": str(n)} for n in range(32)]
ENDS = [RayActorError(), grpc.RpcError("INTERNAL"), asyncio.CancelledError()]
each_end = pytest.mark.parametrize("end", ENDS, ids=["ray", "grpc", "cancelled by the replica"])


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this module joins a cluster."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)


def transport_of(*ends: End) -> HandleTransport:
    """A transport whose calls to each replica end so."""
    transport = HandleTransport("reward")
    handles: Any = {"judge": Handle(*ends)}
    transport._dispatcher = Dispatcher(handles)
    return transport


def client_of(*ends: End, **settings: Any) -> Client:
    return Client(transport_of(*ends), on_failure="none", **settings)


async def awaited(client: Client, asked: list[Any]) -> list[ScoreResult]:
    return await client.ascore_batch(asked)


async def in_a_thread(client: Client, asked: list[Any]) -> list[ScoreResult]:
    return await asyncio.to_thread(client.score_batch, asked)


either_way = pytest.mark.parametrize("ask", [awaited, in_a_thread])


@either_way
async def test_what_one_replica_lost_is_failures_and_the_others_part_stands(ask: Any) -> None:
    with replicas(2):
        results = await ask(client_of(right, RayActorError(), max_attempts=1), ASKED_OF_BOTH)

    assert [result.id for result in results] == [str(n) for n in range(32)]
    assert Counter(result.status for result in results) == {Status.OK: 16, Status.ERROR: 16}
    assert {r.score for r in results if r.status is Status.ERROR} == {None}


@either_way
@each_end
async def test_what_the_only_replica_lost_is_failures_too(ask: Any, end: BaseException) -> None:
    results = await ask(client_of(end, max_attempts=1), ASKED_OF_BOTH)

    assert [result.id for result in results] == [str(n) for n in range(32)]
    assert {(result.status, result.score) for result in results} == {(Status.ERROR, None)}


@each_end
async def test_no_caller_of_the_shared_client_hangs(end: BaseException) -> None:
    client = client_of(end, max_attempts=1)
    async with asyncio.timeout(30):
        result = await client.ascore(ASKED)

    assert (result.status, result.score) == (Status.ERROR, None)


async def test_the_shared_client_asks_a_lost_replicas_items_again() -> None:
    ends = iter([False, True])

    def once_lost(items: list[Any]) -> list[Any]:
        if next(ends):
            return right(items)
        raise RayActorError

    client = client_of(once_lost, max_attempts=2)
    result = await client.ascore({**ASKED, "id": "a"})

    assert (result.status, result.score) == (Status.OK, 1.0)
    assert client.counters.snapshot()["retried"] == 1


def endless() -> Any:
    metadata: dict[str, Any] = {}
    metadata["a"] = metadata["b"] = metadata
    return metadata


@either_way
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [threading.Lock()]}, "metadata: cannot be written as JSON: Object of type lock"),
        (endless(), "metadata: cannot be written as JSON: Circular reference"),
    ],
)
async def test_a_request_that_cannot_be_pickled_is_refused_alone(
    ask: Any, value: Any, said: str
) -> None:
    def pickled(items: list[Any]) -> list[Any]:
        pickle.dumps(items)
        return right(items)

    client = client_of(pickled)
    async with asyncio.timeout(30):  # of a deadline of 60 s
        results = await ask(client, [{**ASKED, "metadata": value, "id": "a"}, {**ASKED, "id": "b"}])
        group = await client.ascore_group({"responses": ["a", "b"], "metadata": value})
        explained = (await client.aexplain({**ASKED, "metadata": value})).result

    assert [(r.id, r.status) for r in results] == [("a", Status.INVALID), ("b", Status.OK)]
    for refused in (results[0], explained, *group.results):
        assert refused.status is Status.INVALID and str(refused.reason).startswith(said)


@pytest.mark.parametrize(
    ("about", "asked", "found"),
    [
        ({"applications": {"judge": "door", "rule": "door"}}, None, ("judge", "door")),
        ({"applications": {"judge": "other"}}, "judge", ("judge", "other")),
        (
            {"applications": {"judge": "door"}, "aliases": {"gpt": "judge"}},
            "gpt",
            ("judge", "door"),
        ),
    ],
)
def test_a_model_is_found_where_its_application_says(
    about: dict[str, Any],
    asked: str | None,
    found: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(about))
    monkeypatch.setattr(serve, "get_deployment_handle", Found)
    result = RewardClient("door", model=asked).score(ASKED)
    assert result.model == "/".join(found)


@pytest.mark.parametrize("model", [None, "rule"])
@either_way
async def test_each_request_goes_to_the_model_that_it_names(
    model: str | None, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {
        "applications": {"judge": "door", "rule": "cheap"},  # as a gateway says
        "aliases": {"Qwen/Qwen3-32B": "judge"},
    }
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(about))
    monkeypatch.setattr(serve, "get_deployment_handle", Found)
    named = ["rule", "Qwen/Qwen3-32B", "judge", None]
    asked = [ASKED if name is None else {**ASKED, "model": name} for name in named]
    results = await ask(RewardClient("door", model=model), asked)

    default = "rule/cheap" if model else "judge/door"
    expected = ["rule/cheap", "judge/door", "judge/door", default]
    assert [result.model for result in results] == expected
    # To a replica, which knows its own name alone.
    assert [result.reason for result in results] == ["rule", "judge", "judge", model or ""]


async def test_the_shared_clients_model_is_of_requests_that_name_none(
    service: FakeService,
) -> None:
    client = connect(url=service.url, model="rule")
    refused = await client.ascore_batch([ASKED, {**ASKED, "model": "rule"}])

    assert [result.status for result in refused] == [Status.OK] * 2
    assert [each["model"] for each in service.calls[0].body["requests"]] == ["rule"] * 2


def test_a_model_that_is_not_there_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"applications": {"judge": "door"}}
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(about))
    monkeypatch.setattr(serve, "get_deployment_handle", Found)
    client = RewardClient("door", model="jugde")
    result = client.score(ASKED)
    assert result.status is Status.INVALID
    assert "no model is named 'jugde'; choose from judge" in str(result.reason)
    assert client.counters.snapshot()["retried"] == 0


async def test_a_batch_above_the_services_limit_is_refused_whole_and_split_by_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about = {"applications": {"judge": "door"}, "max_batch_items": 2}
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(about))
    monkeypatch.setattr(serve, "get_deployment_handle", Found)
    transport = HandleTransport("door")

    assert [r.status for r in await transport.ascore_batch([ASKED] * 2)] == [Status.OK] * 2
    with pytest.raises(
        ServiceUnavailableError, match=r"3 items; the limit is server\.max_batch_items: 2"
    ) as refusal:
        await transport.ascore_batch([ASKED] * 3)
    assert refusal.value.status_code == 413

    results = await Client(transport).ascore_batch([{**ASKED, "id": str(n)} for n in range(5)])
    assert [(r.id, r.status) for r in results] == [(str(n), Status.OK) for n in range(5)]


def test_an_application_that_is_not_there_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> Any:
        raise RayServeException("no such application")

    monkeypatch.setattr(serve, "get_app_handle", absent)
    with pytest.raises(ServiceUnavailableError, match=r"app 'door': .*is it deployed") as refusal:
        asyncio.run(HandleTransport("door").ascore_batch([ASKED]))
    assert refusal.value.retryable


def test_an_application_behind_a_gateway_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[str, str, bool]] = []

    def get(name: str, app: str, _check_exists: bool = True) -> Any:
        found.append((name, app, _check_exists))
        return Found(name, app)

    about = {"applications": {"judge": "away"}}
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(about))
    monkeypatch.setattr(serve, "get_deployment_handle", get)
    RewardClient("door").score(ASKED)
    assert found == [("judge", "away", False)]


ROUTER = "reward_serve.routing.router"


def connected_to(monkeypatch: pytest.MonkeyPatch, about: dict[str, Any]) -> list[str]:
    """An ingress says so of its application; the names of the models whose handles are used."""
    used: list[str] = []

    class Noted(Found):
        def options(self, **_: Any) -> Found:
            used.append(self.deployment_name)
            return self

    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(about))
    monkeypatch.setattr(serve, "get_deployment_handle", Noted)
    return used


MIXED = {"applications": {"judge": "away", "rule": "door"}, "aliases": {"gpt": "judge"}}


async def test_without_all_of_ray_serve_it_says_so_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = connected_to(monkeypatch, MIXED)
    monkeypatch.setitem(sys.modules, ROUTER, None)
    said = r"needs Ray Serve .*install the cluster's version of .ray\[serve\]"
    async with asyncio.timeout(30):  # of a deadline of 60 s
        with pytest.raises(NotConnectedError, match=said):
            await RewardClient("door", on_failure="none").ascore(ASKED)
    assert used == []


async def test_the_time_until_it_is_connected_counts_for_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(Door):
        def remote(self) -> Call:
            time.sleep(0.3)
            return super().remote()

    left_s: list[float] = []

    class Timed(Found):
        def remote(self, items: list[Any]) -> Call:
            left_s.extend(item["timeout_s"] for item in items)
            return super().remote(items)

    monkeypatch.setattr(serve, "get_app_handle", lambda _: Slow({"applications": {"judge": "a"}}))
    monkeypatch.setattr(serve, "get_deployment_handle", Timed)
    first, second = RewardClient("door"), RewardClient("door")
    for client, timeout_s in ((first, 10.0), (first, 10.0), (second, 0.2)):
        await client.ascore({**ASKED, "timeout_s": timeout_s})
    assert left_s[0] < 9.8 and left_s[1:] == [10.0, 0.001]


def test_the_client_is_imported_without_ray() -> None:
    ask = "import sys, reward_serve.client; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class Door:
    """An ingress with this description of itself."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.models = self
        self._about = {"aliases": {}, "version": __version__, **about}

    def remote(self) -> Call:
        return Call(lambda _: self._about, [])


class Found:
    """A deployment's handle, which answers with where it was found."""

    def __init__(self, name: str, app_name: str, **_: Any) -> None:
        self.deployment_name, self.app_name = name, app_name
        self.score_batch = self

    def options(self, **_: Any) -> Found:
        return self

    def remote(self, items: list[Any]) -> Call:
        return Call(lambda items: [self._answer(item) for item in items], items)

    def _answer(self, item: dict[str, Any]) -> dict[str, Any]:
        model, reason = f"{self.deployment_name}/{self.app_name}", item.get("model", "")
        return {
            "id": item.get("id"),
            "status": "ok",
            "score": 1.0,
            "model": model,
            "reason": reason,
        }


def explained(items: Any) -> dict[str, Any]:
    result = ScoreResult(status=Status.OK, score=1.0, id=items["id"])
    return Explanation(result=result).model_dump(mode="json")


async def test_a_result_is_explained_by_the_reward_model() -> None:
    client = client_of(explained)
    awaited = await client.aexplain({**ASKED, "id": "a"})
    in_thread = await asyncio.to_thread(client.explain, {**ASKED, "id": "b"})
    assert (awaited.result.id, in_thread.result.id) == ("a", "b")


@each_end
async def test_a_lost_explanation_is_a_typed_failure(end: End) -> None:
    explanation = await client_of(end).aexplain({**ASKED, "id": "a"})
    assert (
        explanation.result.status,
        explanation.result.score,
        explanation.result.id,
    ) == (Status.ERROR, None, "a")
    assert explanation.rule is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ImportError("No module named 'ray'"),
            r"needs Ray Serve \(No module named 'ray'\); install",
        ),
        (ConnectionError("no instance"), "not in a Ray cluster.*set RAY_ADDRESS"),
    ],
)
@pytest.mark.parametrize("on_failure", ["raise", "none", "rule"])
async def test_a_process_that_cannot_ask_by_handle_says_so_at_once(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, on_failure: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("reward_serve.client.handle.handle_of", fail)
    client = RewardClient("reward", on_failure=on_failure)

    with pytest.raises(NotConnectedError, match=said):
        await HandleTransport("reward").ascore_batch([ASKED])
    async with asyncio.timeout(30):  # of a deadline of 60 s
        with pytest.raises(NotConnectedError, match=said):
            await client.ascore(ASKED)


def judged(body: Any) -> dict[str, Any]:
    results = [ScoreResult(status=Status.OK, score=1.0, text=text) for text in body["responses"]]
    return GroupResult.of(results, id=body["id"]).model_dump(mode="json")


async def test_a_group_is_judged_by_the_reward_model() -> None:
    asked = {"question": "?", "responses": ["a", "b"], "id": "g"}
    found = await client_of(judged).ascore_group(asked)
    assert ([one.text for one in found.results], found.id) == (["a", "b"], "g")


@each_end
async def test_a_lost_group_is_a_typed_failure_for_each_response(end: End) -> None:
    asked = {"question": "?", "responses": ["a", "b"], "id": "g", "timeout_s": 0.1}
    found = await client_of(end).ascore_group(asked)
    assert [(one.status, one.score) for one in found.results] == [(Status.ERROR, None)] * 2
    assert found.id == "g"
