"""A batch over several models and replicas: what is asked where, and how failed calls end."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from operator import itemgetter
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import ray
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError

from reward_serve.routing.dispatch import (
    DeploymentClient,
    Dispatcher,
    NoAnswerError,
    UnknownModelError,
    handle_of,
)
from reward_serve.schema import ScoreResult, Status
from tests.fake_handle import Call, End, Handle, replicas, right
from tests.fake_ingress import GOOD, FakeHandle

ITEMS = [
    {"response": "18", "reference": "18", "group": f"g{n // 4}", "id": str(n), "metadata": {"n": n}}
    for n in range(32)
]


class TooLargeError(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> Any:
        return grpc.StatusCode.RESOURCE_EXHAUSTED


class Waiting(Call):
    """A call that gets no answer."""

    def __await__(self) -> Any:
        yield from asyncio.Event().wait().__await__()


async def scored(client: DeploymentClient, items: list[Any]) -> list[Any]:
    """The results, in order, of which there is one for each item."""
    delivered: list[tuple[int, Any]] = []
    await client.score_each(dict(enumerate(items)), delivered.extend)
    results = dict(delivered)
    assert len(delivered) == len(results) == len(items)
    return [results[index] for index in range(len(items))]


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
async def test_a_batch_is_split_joined_in_order_and_loses_only_a_lost_replicas_part() -> None:
    results = await scored(DeploymentClient(Handle(right, RayActorError())), ITEMS)

    assert [result["id"] for result in results] == [item["id"] for item in ITEMS]
    assert Counter(result["status"] for result in results) == {"ok": 16, "error": 16}
    assert {result["score"] for result in results if result["status"] == "error"} == {None}
    ends: dict[str, set[str]] = {}
    for item, result in zip(ITEMS, results, strict=True):
        ends.setdefault(str(item["group"]), set()).add(result["status"])
    assert {len(replicas) for replicas in ends.values()} == {1}  # groups stay whole


@pytest.mark.parametrize(("end", "status"), ENDS, ids=lambda end: type(end).__name__)
async def test_items_without_an_answer_are_typed_failures(
    end: BaseException, status: str, serve_log: pytest.LogCaptureFixture
) -> None:
    handle = Handle(end)
    results = await scored(DeploymentClient(handle), ITEMS)

    for item, result in zip(ITEMS, results, strict=True):
        parsed = ScoreResult.model_validate(result)
        assert (parsed.status.value, parsed.score, parsed.model) == (status, None, "judge")
        assert (parsed.id, parsed.metadata) == (item["id"], item["metadata"])
    (record,) = [logged for logged in serve_log.records if logged.name == "ray.serve"]
    assert "judge: 32 items unanswered" in record.getMessage()
    with pytest.raises(NoAnswerError) as why:
        await DeploymentClient(handle).call("complete", [], within_s=1.0)
    assert why.value.status is Status(status)
    assert why.value.reason


async def test_a_batch_goes_in_messages_and_an_item_that_none_carries_is_refused() -> None:
    handle = Handle(right)
    items = [{**item, "response": "x" * 500_000} for item in ITEMS[:8]]
    items.append({**ITEMS[8], "response": "x" * 3_000_000})
    results = await scored(DeploymentClient(handle), items)

    assert [result["id"] for result in results] == [item["id"] for item in items]
    assert [result["status"] for result in results] == ["ok"] * 8 + ["invalid"]
    assert "bytes with its metadata; send at most 2097152" in results[8]["reason"]
    assert len(handle.batches) == 2
    assert len(set(handle.batches)) == 1
    with pytest.raises(NoAnswerError, match="bytes") as caught:
        await DeploymentClient(handle).call("complete", items[8], within_s=1)
    assert caught.value.status == "invalid"


@pytest.mark.usefixtures("two_replicas")
async def test_a_call_given_up_on_or_left_is_cancelled_and_frees_its_room() -> None:
    handle = Handle(right, right, call=Waiting)
    items = [{**item, "timeout_s": 0.05} for item in ITEMS]
    client = DeploymentClient(handle, grace_s=0.0)
    assert {result["status"] for result in await scored(client, items)} == {"timeout"}
    for steps in range(6):  # from before the calls begin
        task = asyncio.create_task(scored(client, ITEMS))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(handle.calls) >= 4
    assert all(call.cancelled for call in handle.calls)
    assert set(client._placement._loads.values()) == {0}


@pytest.mark.usefixtures("two_replicas")
async def test_a_group_goes_to_the_replica_of_its_single_requests() -> None:
    def named(replica: str) -> End:
        return lambda asked: {"replica": replica} if isinstance(asked, dict) else right(asked)

    client = DeploymentClient(Handle(named("r0"), named("r1")))
    homes = {}
    for n in range(8):
        asked = {"responses": ["a", "b"], "group": f"g{n}"}
        homes[n] = {(await client.ask("score_group", asked))["replica"] for _ in range(3)}
    assert all(len(replicas) == 1 for replicas in homes.values())
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


def dispatcher() -> Dispatcher:
    handles: Any = {name: FakeHandle(name, lambda: None) for name in ("judge", "rule")}
    return Dispatcher(handles, {"gpt-4o-mini": "judge"})


@pytest.mark.parametrize("asked", ["", 3, ["rule"], "x" * 1000])
def test_a_model_that_is_not_there_is_refused_with_those_that_are(asked: object) -> None:
    with pytest.raises(UnknownModelError, match="choose from judge, rule") as refusal:
        dispatcher().pick(asked)
    assert len(str(refusal.value)) < 160


async def test_items_of_a_batch_go_each_to_its_model() -> None:
    asked = [None, "rule", "rul", "gpt-4o-mini", "judge"]
    items = [{**GOOD, "model": name, "id": str(n)} for n, name in enumerate(asked)]
    results = await dispatcher().score_batch(items)
    stream = [result async for part in dispatcher().score_stream(items) for result in part]
    streamed = [result for _, result in sorted(stream, key=itemgetter(0))]
    for answers in (results, streamed):
        models = ["judge", "rule", None, "judge", "judge"]
        assert [result["model"] for result in answers] == models
        assert [result["id"] for result in answers] == list("01234")
        assert [result["score"] for result in answers] == [1.0, 1.0, None, 1.0, 1.0]
        assert answers[2]["status"] == "invalid"
        assert answers[2]["reason"] == "model: no model is named 'rul'; choose from judge, rule"


BY_ROW = {"openai/gsm8k": "judge", "code_*": "rule", "code_b*": "judge"}
ROWS = ["openai/gsm8k", "code_a", "code_b", "gsm8k", "openai/gsm8k2", "", None, 3, "code_*"]
HOMES = ["judge", "rule", "judge", None, None, None, None, None, "rule"]


@pytest.mark.parametrize("default", [None, "rule"])
async def test_a_row_has_its_data_sets_model(default: str | None) -> None:
    handles: Any = {name: FakeHandle(name, lambda: None) for name in ("judge", "rule")}
    by_row = {"field": "data_source", "models": BY_ROW, "default": default}
    mixed = Dispatcher(handles, {"alias": "judge"}, by_row)
    items: list[Any] = [{**GOOD, "metadata": {"data_source": row}} for row in ROWS]
    named = [{**items[1], "model": "alias"}, {**items[3], "model": "judge"}]
    results = await mixed.score_batch([*items, {**GOOD}, *named, {**items[0], "model": "x"}])
    homes = [*(home or default for home in [*HOMES, None]), "judge", "judge", None]
    assert [result["model"] for result in results] == homes
    for result, home in zip(results, homes, strict=True):
        assert (result["status"], result["score"]) == (("ok", 1.0) if home else ("invalid", None))
    assert results[-1]["details"] == {"refused": True}, "a model that is not there ends a run"
    unmatched = results[3]
    if default is None:
        assert unmatched["reason"] == (
            "metadata.data_source: 'gsm8k' is in no row of server.by_row.models (openai/gsm8k, "
            "code_*, code_b*); send one of these, or model, or set server.by_row.default"
        )
        assert unmatched["details"] is None
        assert unmatched["metadata"] == {"data_source": "gsm8k"}
        explained = await mixed.explain(items[3])
        assert explained["result"]["status"] == "invalid"
    group = {"responses": ["a", "b"], "metadata": {"data_source": "code_a"}}
    assert (await mixed.score_group(group))["results"][0]["model"] == "rule"


async def test_an_explanation_and_a_group_are_of_the_model_that_they_name() -> None:
    body = {"question": "?", "responses": ["a", "aa"], "id": "g"}
    reply = await dispatcher().score_group({**body, "model": "rule"})
    assert [(r["score"], r["model"]) for r in reply["results"]] == [(0.5, "rule"), (1.0, "rule")]
    refused = await dispatcher().score_group({**body, "model": "rul"})
    assert (refused["status"], refused["id"]) == ("invalid", "g")
    assert [r["status"] for r in refused["results"]] == ["invalid"] * 2
    explained = await dispatcher().explain({**GOOD, "model": "rul", "id": "e"})
    assert (explained["result"]["status"], explained["result"]["id"]) == ("invalid", "e")


@pytest.fixture
def waiting() -> Iterator[Handle]:
    """Of two replicas, which answer an item unless it is to wait."""

    class Answered(Call):
        async def __aiter__(self) -> AsyncIterator[Any]:
            results = list(enumerate(await self))
            yield [pair for pair in results if pair[1]["id"] != "wait"]
            if any(item["id"] == "wait" for item in self._items):
                await asyncio.Event().wait()

    with replicas(2):
        yield Handle(right, right, call=Answered)


async def test_a_result_is_streamed_before_the_slowest_is_done(waiting: Handle) -> None:
    fields: dict[str, Any] = {**GOOD, "timeout_s": 0.05}
    items = [{**fields, "id": name, "group": name} for name in ("wait", "a", "b", "wait", "c")]
    stream = Dispatcher({"judge": waiting}, grace_s=0.0).score_stream(items)
    results = [result async for part in stream for result in part]
    assert {index for index, _ in results[:3]} == {1, 2, 4}
    assert [result["status"] for _, result in results] == ["ok"] * 3 + ["timeout"] * 2
    assert len(set(waiting.batches)) == 1  # they take turns with others as one batch


async def test_a_reader_who_leaves_a_stream_cancels_its_calls(waiting: Handle) -> None:
    items = [{**GOOD, "id": name} for name in ("a", "wait", "wait")]
    stream = Dispatcher({"judge": waiting}).score_stream(items)
    async with aclosing(stream) as parts:
        assert [index for index, _ in await anext(parts)] == [0]
    await asyncio.sleep(0)
    assert [call.cancelled for call in waiting.calls] == [True]


@pytest.mark.usefixtures("two_replicas")
@pytest.mark.parametrize("end", [RayActorError(), None], ids=["lost", "ended early"])
async def test_what_a_lost_replica_had_delivered_stays(end: Exception | None) -> None:
    class Half(Call):
        async def __aiter__(self) -> AsyncIterator[Any]:
            results = list(enumerate(await self))
            yield results[::2]
            if end is not None:
                raise end

    client = DeploymentClient(Handle(right, right, call=Half))
    results = await scored(client, ITEMS)
    assert Counter(result["status"] for result in results) == {"ok": 16, "error": 16}
    assert [result["id"] for result in results] == [item["id"] for item in ITEMS]
    assert set(client._placement._loads.values()) == {0}
