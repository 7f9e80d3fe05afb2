"""A batch over several replicas: what of it is asked where, and what comes of calls that fail."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import ray
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError

from reward_serve.routing.deployment_client import (
    DeploymentClient,
    NoAnswerError,
    handle_of,
    joined,
    merged,
)
from reward_serve.schema import ScoreResult, Status
from tests.fake_handle import Call, End, Handle, replicas, right

ITEMS = [
    {"response": "18", "reference": "18", "group": f"g{n // 4}", "id": str(n), "metadata": {"n": n}}
    for n in range(32)
]
REQUEST: ContextVar[str] = ContextVar("as Serve keeps the request that is being answered")


@pytest.fixture
def two_replicas() -> Iterator[None]:
    with replicas(2):
        yield


async def streamed(client: DeploymentClient, items: list[Any]) -> list[Any]:
    """What the stream of a batch gives, by its indices in order."""
    found: dict[int, Any] = {}
    async for chunk in client.score_stream(dict(enumerate(items))):
        for result in chunk:
            assert found.setdefault(result.pop("index"), result) is result
    assert sorted(found) == list(range(len(items)))
    return [found[index] for index in range(len(items))]


async def at_once(client: DeploymentClient, items: list[Any]) -> list[Any]:
    return await client.score_batch(items)


either_way = pytest.mark.parametrize("ask", [at_once, streamed])
ENDS = [
    (RayActorError(), "error"),
    (grpc.RpcError("INTERNAL"), "error"),
    (asyncio.CancelledError(), "error"),
    (BackPressureError(num_queued_requests=9, max_queued_requests=9), "overloaded"),
    (TimeoutError(), "timeout"),
]


@either_way
@pytest.mark.usefixtures("two_replicas")
async def test_a_batch_is_split_over_the_replicas_and_joined_in_order(ask: Any) -> None:
    taken: list[set[str]] = [set(), set()]

    def take(of: int) -> End:
        def taking(items: list[Any]) -> list[Any]:
            taken[of] |= {item["group"] for item in items}
            return right(items)

        return taking

    results = await ask(DeploymentClient(Handle(take(0), take(1))), ITEMS)

    assert [result["id"] for result in results] == [item["id"] for item in ITEMS]
    first, second = taken
    assert len(first) == len(second) == 4
    assert not first & second


@either_way
@pytest.mark.parametrize(("end", "status"), ENDS, ids=lambda one: type(one).__name__)
async def test_items_without_an_answer_are_typed_failures(
    ask: Any, end: BaseException, status: str, serve_log: pytest.LogCaptureFixture
) -> None:
    results = await ask(DeploymentClient(Handle(end)), ITEMS)

    for item, result in zip(ITEMS, results, strict=True):
        parsed = ScoreResult.model_validate(result)
        assert (parsed.status.value, parsed.score, parsed.model) == (status, None, "judge")
        assert (parsed.id, parsed.metadata) == (item["id"], item["metadata"])
    (record,) = serve_log.records
    assert "judge: 32 items unanswered" in record.getMessage()
    assert type(end).__name__ in record.getMessage()


@either_way
@pytest.mark.usefixtures("two_replicas")
async def test_a_lost_replicas_items_fail_and_the_others_are_answered(ask: Any) -> None:
    results = await ask(DeploymentClient(Handle(right, RayActorError())), ITEMS)

    assert [result["id"] for result in results] == [item["id"] for item in ITEMS]
    assert Counter(result["status"] for result in results) == {"ok": 16, "error": 16}
    assert {r["score"] for r in results if r["status"] == "error"} == {None}


async def test_a_stream_that_ends_early_or_amid_is_filled_up() -> None:
    class Short(Call):
        async def __aiter__(self) -> AsyncIterator[list[Any]]:
            yield [{"index": 1, **right([self._items[1]])[0]}]
            if isinstance(self._end, BaseException):
                raise self._end

    for end in (right, RayActorError(), ValueError("of whatever kind")):
        handle = Handle(end, call=Short)
        results = await streamed(DeploymentClient(handle), ITEMS[:3])
        assert [result["status"] for result in results] == ["error", "ok", "error"]
        assert [call.cancelled for call in handle.calls] == [True]


async def test_results_are_indexed_by_the_items_keys() -> None:
    items = {7: ITEMS[0], 3: ITEMS[1]}
    chunks = [chunk async for chunk in DeploymentClient(Handle(right)).score_stream(items)]
    assert {r["index"]: r["id"] for chunk in chunks for r in chunk} == {7: "0", 3: "1"}


async def test_a_slow_reader_misses_no_item(serve_log: pytest.LogCaptureFixture) -> None:
    items = [{**item, "timeout_s": 0.05} for item in ITEMS]
    client = DeploymentClient(Handle(right), grace_s=0.0)
    indices = []
    async for chunk in client.score_stream(dict(enumerate(items))):
        await asyncio.sleep(0.01)
        indices += [result["index"] for result in chunk]
    assert sorted(indices) == list(range(32))
    assert "judge: 0 items" not in serve_log.text


class TooLargeError(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> Any:
        return grpc.StatusCode.RESOURCE_EXHAUSTED


@either_way
async def test_a_batch_goes_in_messages_and_an_item_that_none_carries_is_refused(ask: Any) -> None:
    handle = Handle(right)
    items = [{**item, "response": "x" * 500_000} for item in ITEMS[:8]]
    items.append({**ITEMS[8], "response": "x" * 3_000_000})
    results = await ask(DeploymentClient(handle), items)

    assert [result["id"] for result in results] == [item["id"] for item in items]
    assert [result["status"] for result in results] == ["ok"] * 8 + ["invalid"]
    assert "bytes with its metadata; send at most 2097152" in results[8]["reason"]
    assert len(handle.batches) == 2
    assert len(set(handle.batches)) == 1


@either_way
async def test_results_that_no_message_carries_are_refused_with_the_remedy(ask: Any) -> None:
    results = await ask(DeploymentClient(Handle(TooLargeError())), ITEMS)
    assert {result["status"] for result in results} == {"invalid"}
    assert results[0]["reason"] == "the results exceed 4 MiB; send fewer items at once"


async def test_a_conversation_that_no_message_carries_is_refused() -> None:
    client = DeploymentClient(Handle(right))
    with pytest.raises(NoAnswerError, match="bytes") as caught:
        await client.call("complete", [{"id": None, "content": "x" * 3_000_000}], within_s=1)
    assert caught.value.status == "invalid"


class Waiting(Call):
    """A call that gets no answer."""

    def __await__(self) -> Any:
        yield from asyncio.Event().wait().__await__()

    async def __aiter__(self) -> AsyncIterator[list[Any]]:
        await asyncio.Event().wait()
        yield []


@either_way
@pytest.mark.usefixtures("two_replicas")
async def test_a_call_given_up_on_is_cancelled(ask: Any) -> None:
    handle = Handle(right, right, call=Waiting)
    items = [{**item, "timeout_s": 0.05} for item in ITEMS]
    results = await ask(DeploymentClient(handle, grace_s=0.0), items)

    assert {result["status"] for result in results} == {"timeout"}
    assert [call.cancelled for call in handle.calls] == [True, True]


@either_way
@pytest.mark.usefixtures("two_replicas")
async def test_a_caller_who_leaves_cancels_the_calls_and_frees_their_room(ask: Any) -> None:
    handle = Handle(right, right, call=Waiting)
    client = DeploymentClient(handle)
    for steps in range(6):  # from before the calls begin
        task = asyncio.create_task(ask(client, ITEMS))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(0.05)  # a stream's calls end behind it
    assert len(handle.calls) >= 2
    assert all(call.cancelled for call in handle.calls)
    assert set(client._placement._loads.values()) == {0}


async def test_a_reader_who_leaves_a_stream_cancels_its_calls() -> None:
    class Endless(Call):
        async def __aiter__(self) -> AsyncIterator[list[Any]]:
            yield [{"index": 0, **right([self._items[0]])[0]}]
            await asyncio.Event().wait()

    handle = Handle(right, right, call=Endless)
    with replicas(2):
        async with aclosing(
            DeploymentClient(handle).score_stream(dict(enumerate(ITEMS)))
        ) as chunks:
            await anext(chunks)
    await asyncio.sleep(0.05)
    assert [call.cancelled for call in handle.calls] == [True, True]


@either_way
@pytest.mark.parametrize(
    ("known", "detached", "requests"),
    [(0, False, ["abc"]), (2, False, ["none", "none"]), (0, True, ["none"])],
    ids=["one call keeps the request", "several have none", "nor have those of the detached"],
)
async def test_calls_of_one_request_at_a_time_share_no_context(
    ask: Any, known: int, detached: bool, requests: list[str]
) -> None:
    REQUEST.set("abc")
    seen: list[str] = []

    def call(end: End, items: list[Any]) -> Call:
        seen.append(REQUEST.get("none"))
        return Call(end, items)

    with replicas(known):
        client = DeploymentClient(Handle(right, right, call=call), detached=detached)
        results = await ask(client, ITEMS)
    assert {result["status"] for result in results} == {"ok"}
    assert seen == requests
    assert REQUEST.get() == "abc"


async def test_a_single_call_is_answered_or_fails_with_a_reason() -> None:
    answering = DeploymentClient(Handle(lambda _: {"name": "judge"}))
    assert await answering.call("describe", within_s=1.0) == {"name": "judge"}
    for end, status in ENDS:
        with pytest.raises(NoAnswerError) as why:
            await DeploymentClient(Handle(end)).call("complete", [], within_s=1.0)
        assert why.value.status is Status(status)
        assert why.value.reason


async def test_a_fault_that_is_no_replicas_is_raised() -> None:
    with pytest.raises(LookupError):
        await DeploymentClient(Handle(LookupError())).score_batch(ITEMS)
    with pytest.raises(ValueError, match="zip"):
        await DeploymentClient(Handle(lambda _: [])).score_batch(ITEMS)


def test_parts_are_joined_and_a_short_one_is_not() -> None:
    a, b, c = ({"id": name} for name in "abc")
    assert joined([[2, 0], [1]], [[a, b], [c]]) == [b, c, a]
    assert joined([], []) == []
    with pytest.raises(ValueError, match="zip"):
        joined([[0, 1]], [[a]])


async def test_streams_are_merged_and_the_fault_of_one_is_not_swallowed() -> None:
    closed: list[str] = []

    async def numbers(name: str, fault: Exception | None = None) -> Any:
        try:
            for index in range(20):
                await asyncio.sleep(0)
                yield [{"index": index, "of": name}]
                if fault:
                    raise fault
        finally:
            closed.append(name)

    chunks = [chunk async for chunk in merged([numbers("a"), numbers("b")])]
    assert len(chunks) == 40
    assert [c[0]["index"] for c in chunks if c[0]["of"] == "b"] == list(range(20))
    assert [chunk async for chunk in merged([])] == []
    closed.clear()
    with pytest.raises(KeyError):
        _ = [chunk async for chunk in merged([numbers("a"), numbers("b", KeyError())])]
    await asyncio.sleep(0.05)
    assert sorted(closed) == ["a", "b"]


def test_a_process_without_a_cluster_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**settings: Any) -> None:
        assert settings["address"] == "auto"
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ConnectionError, match="any running Ray instance"):
        handle_of("reward")


async def test_a_group_goes_to_the_replica_of_its_single_requests(two_replicas: None) -> None:
    def named(replica: str) -> End:
        return lambda asked: {"replica": replica} if isinstance(asked, dict) else right(asked)

    handle: Any = Handle(named("r0"), named("r1"))
    client = DeploymentClient(handle)
    homes = {}
    for n in range(8):
        asked = {"responses": ["a", "b"], "group": f"g{n}"}
        homes[n] = {(await client.score_group(asked))["replica"] for _ in range(3)}
    assert all(len(found) == 1 for found in homes.values())
    assert set().union(*homes.values()) == {"r0", "r1"}


async def test_a_group_whose_replica_is_lost_has_no_answer() -> None:
    with pytest.raises(NoAnswerError):
        await DeploymentClient(Handle(RayActorError())).score_group({"responses": ["a", "b"]})
