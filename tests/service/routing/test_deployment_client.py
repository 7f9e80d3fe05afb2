"""A batch over several replicas: what of it is asked where, and what comes of calls that fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import ray
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError

from reward_serve.routing.dispatch import (
    DeploymentClient,
    NoAnswerError,
    handle_of,
)
from reward_serve.schema import ScoreResult, Status
from tests.fake_handle import Call, End, Handle, replicas, right

ITEMS = [
    {"response": "18", "reference": "18", "group": f"g{n // 4}", "id": str(n), "metadata": {"n": n}}
    for n in range(32)
]
REQUEST: ContextVar[str] = ContextVar("as Serve keeps the request that is being answered")


class TooLargeError(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> Any:
        return grpc.StatusCode.RESOURCE_EXHAUSTED


class Waiting(Call):
    """A call that gets no answer."""

    def __await__(self) -> Any:
        yield from asyncio.Event().wait().__await__()


ENDS = [
    (RayActorError(), "error"),
    (grpc.RpcError("INTERNAL"), "error"),
    (asyncio.CancelledError(), "error"),
    (BackPressureError(num_queued_requests=9, max_queued_requests=9), "overloaded"),
    (TimeoutError(), "timeout"),
    (TooLargeError(), "invalid"),
]


@pytest.fixture
def two_replicas() -> Iterator[None]:
    with replicas(2):
        yield


@pytest.mark.usefixtures("two_replicas")
async def test_a_batch_is_split_over_the_replicas_and_joined_in_order() -> None:
    taken: list[set[str]] = [set(), set()]

    def take(of: int) -> End:
        def taking(items: list[Any]) -> list[Any]:
            taken[of] |= {item["group"] for item in items}
            return right(items)

        return taking

    results = await DeploymentClient(Handle(take(0), take(1))).score_batch(ITEMS)

    assert [result["id"] for result in results] == [item["id"] for item in ITEMS]
    first, second = taken
    assert len(first) == len(second) == 4
    assert not first & second


@pytest.mark.parametrize(("end", "status"), ENDS, ids=lambda one: type(one).__name__)
async def test_items_without_an_answer_are_typed_failures(
    end: BaseException, status: str, serve_log: pytest.LogCaptureFixture
) -> None:
    handle = Handle(end)
    results = await DeploymentClient(handle).score_batch(ITEMS)

    for item, result in zip(ITEMS, results, strict=True):
        parsed = ScoreResult.model_validate(result)
        assert (parsed.status.value, parsed.score, parsed.model) == (status, None, "judge")
        assert (parsed.id, parsed.metadata) == (item["id"], item["metadata"])
    (record,) = serve_log.records
    assert "judge: 32 items unanswered" in record.getMessage()
    with pytest.raises(NoAnswerError) as why:
        await DeploymentClient(handle).call("complete", [], within_s=1.0)
    assert why.value.status is Status(status)
    assert why.value.reason


@pytest.mark.usefixtures("two_replicas")
async def test_a_lost_replicas_items_fail_and_the_others_are_answered() -> None:
    results = await DeploymentClient(Handle(right, RayActorError())).score_batch(ITEMS)

    assert [result["id"] for result in results] == [item["id"] for item in ITEMS]
    assert Counter(result["status"] for result in results) == {"ok": 16, "error": 16}
    assert {r["score"] for r in results if r["status"] == "error"} == {None}


async def test_a_batch_goes_in_messages_and_an_item_that_none_carries_is_refused() -> None:
    handle = Handle(right)
    items = [{**item, "response": "x" * 500_000} for item in ITEMS[:8]]
    items.append({**ITEMS[8], "response": "x" * 3_000_000})
    results = await DeploymentClient(handle).score_batch(items)

    assert [result["id"] for result in results] == [item["id"] for item in items]
    assert [result["status"] for result in results] == ["ok"] * 8 + ["invalid"]
    assert "bytes with its metadata; send at most 2097152" in results[8]["reason"]
    assert len(handle.batches) == 2
    assert len(set(handle.batches)) == 1
    with pytest.raises(NoAnswerError, match="bytes") as caught:
        await DeploymentClient(handle).call("complete", items[8], within_s=1)
    assert caught.value.status == "invalid"


@pytest.mark.usefixtures("two_replicas")
async def test_a_call_given_up_on_is_cancelled() -> None:
    handle = Handle(right, right, call=Waiting)
    items = [{**item, "timeout_s": 0.05} for item in ITEMS]
    results = await DeploymentClient(handle, grace_s=0.0).score_batch(items)

    assert {result["status"] for result in results} == {"timeout"}
    assert [call.cancelled for call in handle.calls] == [True, True]


@pytest.mark.usefixtures("two_replicas")
async def test_a_caller_who_leaves_cancels_the_calls_and_frees_their_room() -> None:
    handle = Handle(right, right, call=Waiting)
    client = DeploymentClient(handle)
    for steps in range(6):  # from before the calls begin
        task = asyncio.create_task(client.score_batch(ITEMS))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(handle.calls) >= 2
    assert all(call.cancelled for call in handle.calls)
    assert set(client._placement._loads.values()) == {0}


@pytest.mark.parametrize(
    ("known", "detached", "requests"),
    [(0, False, ["abc"]), (2, False, ["none", "none"]), (0, True, ["none"])],
    ids=["one call keeps the request", "several have none", "nor have those of the detached"],
)
async def test_calls_of_one_request_at_a_time_share_no_context(
    known: int, detached: bool, requests: list[str]
) -> None:
    REQUEST.set("abc")
    seen: list[str] = []

    def call(end: End, items: list[Any]) -> Call:
        seen.append(REQUEST.get("none"))
        return Call(end, items)

    with replicas(known):
        client = DeploymentClient(Handle(right, right, call=call), detached=detached)
        results = await client.score_batch(ITEMS)
    assert {result["status"] for result in results} == {"ok"}
    assert seen == requests
    assert REQUEST.get() == "abc"


async def test_a_fault_that_is_no_replicas_is_raised() -> None:
    with pytest.raises(LookupError):
        await DeploymentClient(Handle(LookupError())).score_batch(ITEMS)
    with pytest.raises(ValueError, match="zip"):  # fewer results than items
        await DeploymentClient(Handle(lambda _: [])).score_batch(ITEMS)


@pytest.mark.usefixtures("two_replicas")
async def test_a_group_goes_to_the_replica_of_its_single_requests() -> None:
    def named(replica: str) -> End:
        return lambda asked: {"replica": replica} if isinstance(asked, dict) else right(asked)

    client = DeploymentClient(Handle(named("r0"), named("r1")))
    homes = {}
    for n in range(8):
        asked = {"responses": ["a", "b"], "group": f"g{n}"}
        homes[n] = {(await client.ask("score_group", asked))["replica"] for _ in range(3)}
    assert all(len(found) == 1 for found in homes.values())
    assert set().union(*homes.values()) == {"r0", "r1"}
    with pytest.raises(NoAnswerError):
        await DeploymentClient(Handle(RayActorError(), RayActorError())).ask("explain", ITEMS[0])


def test_a_process_without_a_cluster_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**settings: Any) -> None:
        assert settings["address"] == "auto"
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ConnectionError, match="any running Ray instance"):
        handle_of("reward")
