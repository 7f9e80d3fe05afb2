"""How calls by handle fail; what they do when all is well stands in tests/service/integration."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import ray
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import RayServeException

from reward_serve.client import Client, NotConnectedError, RewardClient, ServiceUnavailableError
from reward_serve.client.transport import HandleTransport
from reward_serve.explanation import Explanation
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import GroupResult, ScoreResult, Status
from tests.fake_handle import Call, End, Handle, replicas, right

ASKED = {"response": "#### 18", "reference": "18"}
ASKED_OF_BOTH = [{**ASKED, "group": f"g{n // 4}", "id": str(n)} for n in range(32)]
ENDS = [RayActorError(), grpc.RpcError("INTERNAL"), asyncio.CancelledError()]
each_end = pytest.mark.parametrize("end", ENDS, ids=["ray", "grpc", "cancelled by the replica"])


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this module joins a cluster."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)


def client_of(*ends: End, grace_s: float = 2.0, call: Any = Call, **settings: Any) -> Client:
    """A client whose calls to each replica end so."""
    transport = HandleTransport("reward")
    handles: Any = {"judge": Handle(*ends, call=call)}
    transport._dispatcher = Dispatcher(handles, grace_s=grace_s)
    return Client(transport, **{"on_failure": "none", **settings})


async def test_what_one_replica_lost_is_failures_and_the_others_part_stands() -> None:
    client = client_of(right, RayActorError(), max_attempts=1)
    with replicas(2):
        results = await client.ascore_batch(ASKED_OF_BOTH)

    assert [result.id for result in results] == [str(n) for n in range(32)]
    assert Counter(result.status for result in results) == {Status.OK: 16, Status.ERROR: 16}
    assert {r.score for r in results if r.status is Status.ERROR} == {None}


def judged(body: Any) -> dict[str, Any]:
    results = [ScoreResult(status=Status.OK, score=1.0, text=text) for text in body["responses"]]
    return GroupResult.of(results, id=body["id"]).model_dump(mode="json")


def explained(body: Any) -> dict[str, Any]:
    result = ScoreResult(status=Status.OK, score=1.0, id=body["id"])
    return Explanation(result=result).model_dump(mode="json")


@each_end
async def test_what_the_only_replica_lost_is_a_typed_failure_and_nobody_hangs(end: End) -> None:
    group = {"question": "?", "responses": ["a", "b"], "id": "a"}
    client = client_of(end, max_attempts=1)
    async with asyncio.timeout(30):  # of a deadline of 60 s
        results = [
            await client.ascore({**ASKED, "id": "a"}),
            await asyncio.to_thread(client.score, {**ASKED, "id": "a"}),
            (await client.aexplain({**ASKED, "id": "a"})).result,
        ]
        reply = await client.ascore_group(group)
    assert [(r.id, r.status, r.score) for r in results] == [("a", Status.ERROR, None)] * 3
    assert [(r.status, r.score) for r in reply.results] == [(Status.ERROR, None)] * 2
    assert reply.id == "a"


async def test_groups_and_explanations_are_the_reward_models() -> None:
    reply = await client_of(judged).ascore_group({"question": "?", "responses": ["a", "b"]})
    assert ([result.text for result in reply.results], reply.id) == (["a", "b"], None)
    assert (await client_of(explained).aexplain({**ASKED, "id": "a"})).result.id == "a"


async def test_an_answer_that_is_no_result_is_a_failure() -> None:
    client = client_of(lambda items: [{"verdict": "yes"}] * len(items), max_attempts=1)
    result = await client.ascore(ASKED)
    assert result.status is Status.ERROR
    assert "app 'reward': its answer is not a result" in str(result.reason)


class Never(Call):
    """A call that is never answered."""

    def __await__(self) -> Generator[Any, None, Any]:
        yield from asyncio.Event().wait().__await__()


async def test_a_call_is_cancelled_at_its_deadline_and_when_its_caller_leaves() -> None:
    calls: list[Call] = []

    def never(end: End, items: list[Any]) -> Call:
        calls.append(Never(end, items))
        return calls[-1]

    late = client_of(right, grace_s=0.0, call=never, max_attempts=1)
    result = await late.ascore({**ASKED, "timeout_s": 0.05})
    assert (result.status, result.score, calls[0].cancelled) == (Status.TIMEOUT, None, True)

    task = asyncio.ensure_future(client_of(right, call=never).ascore_batch([ASKED]))
    while len(calls) < 2:  # noqa: ASYNC110 - the client's loop calls
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while not calls[1].cancelled:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


class Door:
    """An ingress with this description of itself."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.models = self
        self._about = {"aliases": {}, **description}

    def remote(self) -> Call:
        return Call(lambda _: self._about, [])


class Found:
    """A deployment's handle, which answers with where it was found."""

    def __init__(self, name: str, app_name: str, **_: Any) -> None:
        self.deployment_name, self.app_name = name, app_name
        self.score_batch = self.score_stream = self

    def options(self, **_: Any) -> Found:
        return self

    def remote(self, items: list[Any]) -> Call:
        return Call(lambda items: [self._answer(item) for item in items], items)

    def _answer(self, item: dict[str, Any]) -> dict[str, Any]:
        model, reason = f"{self.deployment_name}/{self.app_name}", item.get("model", "")
        return {
            "id": item.get("id"), "status": "ok", "score": 1.0, "model": model, "reason": reason,
        }  # fmt: skip


def behind(monkeypatch: pytest.MonkeyPatch, description: dict[str, Any]) -> None:
    """The ingress of each application describes itself so."""
    monkeypatch.setattr(serve, "get_app_handle", lambda _: Door(description))
    monkeypatch.setattr(serve, "get_deployment_handle", Found)


@pytest.mark.parametrize("model", [None, "rule"])
async def test_items_go_to_their_model(model: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    applications = {"judge": "door", "rule": "cheap"}  # as a gateway says
    behind(monkeypatch, {"applications": applications, "aliases": {"Qwen/Qwen3-32B": "judge"}})
    named = ["rule", "Qwen/Qwen3-32B", "judge", "jugde", None]
    asked = [ASKED if name is None else {**ASKED, "model": name} for name in named]
    client = RewardClient("door", model=model)
    results = await client.ascore_batch(asked)

    default = "rule/cheap" if model else "judge/door"
    expected = ["rule/cheap", "judge/door", "judge/door", None, default]
    assert [result.model for result in results] == expected
    refused = results.pop(3)
    assert "no model is named 'jugde'; choose from judge, rule" in str(refused.reason)
    # To a replica, which knows its own name alone.
    assert [result.reason for result in results] == ["rule", "judge", "judge", model or ""]
    assert client.counters.snapshot()["retried"] == 0


async def test_a_batch_above_the_services_limit_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    behind(monkeypatch, {"applications": {"judge": "door"}, "max_batch_items": 2})
    transport = HandleTransport("door")
    limit = r"3 items; the limit is server\.max_batch_items: 2"
    with pytest.raises(ServiceUnavailableError, match=limit):
        await transport.ascore_batch([ASKED] * 3)

    results = await Client(transport).ascore_batch([{**ASKED, "id": str(n)} for n in range(5)])
    assert [(r.id, r.status) for r in results] == [(str(n), Status.OK) for n in range(5)]


def test_threads_share_a_connection_and_retry_a_failed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def get(app: str) -> Door:
        opened.append(app)
        if len(opened) == 1:
            raise RayServeException("no such application")  # it may come
        time.sleep(0.05)
        return Door({"applications": {"judge": "door"}})

    behind(monkeypatch, {})
    monkeypatch.setattr(serve, "get_app_handle", get)
    client = RewardClient("door", max_batch=1)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(client.score, [ASKED] * 8))
    assert [result.score for result in results] == [1.0] * 8
    assert len(opened) == 2


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ImportError("No module named 'ray'"), r"needs Ray Serve \(No module named 'ray'\); inst"),
        (ConnectionError("no instance"), "not in a Ray cluster.*set RAY_ADDRESS"),
    ],
)
@pytest.mark.parametrize("on_failure", ["raise", "rule"])
async def test_a_process_that_cannot_ask_by_handle_says_so_at_once(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str, on_failure: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("reward_serve.client.transport.handle_of", fail)
    client = RewardClient("reward", on_failure=on_failure)
    async with asyncio.timeout(30):  # of a deadline of 60 s
        with pytest.raises(NotConnectedError, match=message):
            await client.ascore(ASKED)
        with pytest.raises(NotConnectedError, match=message):
            await client.ascore_group({"question": "?", "responses": ["a", "b"]})
