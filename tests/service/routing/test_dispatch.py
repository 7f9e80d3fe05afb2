"""Which model is asked, by what name; what comes of it is tested through the ingress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from reward_serve.routing.dispatch import Dispatcher, UnknownModelError
from tests.fake_handle import Call, Handle, replicas, right
from tests.fake_ingress import GOOD, FakeHandle


def dispatcher() -> Dispatcher:
    handles: Any = {name: FakeHandle(name, lambda: None) for name in ("judge", "rule")}
    return Dispatcher(handles, {"gpt-4o-mini": "judge"})


@pytest.mark.parametrize(
    ("asked", "picked"), [(None, "judge"), ("rule", "rule"), ("gpt-4o-mini", "judge")]
)
def test_a_model_is_picked_by_its_name_or_an_alias(asked: str | None, picked: str) -> None:
    assert dispatcher().pick(asked) == picked


@pytest.mark.parametrize("asked", ["", "gpt-4o", 3, ["rule"], "x" * 1000])
def test_a_model_that_is_not_there_is_refused_with_those_that_are(asked: object) -> None:
    with pytest.raises(UnknownModelError, match="choose from judge, rule") as refusal:
        dispatcher().pick(asked)
    assert len(str(refusal.value)) < 160


async def test_items_of_a_batch_go_each_to_its_model() -> None:
    asked = [None, "rule", "rul", "gpt-4o-mini", "judge"]
    items = [{**GOOD, "model": name, "id": str(n)} for n, name in enumerate(asked)]
    results = await dispatcher().score_batch(items)
    streamed = [result async for result in dispatcher().score_stream(items)]
    streamed.sort(key=lambda result: int(result.pop("index")))
    for found in (results, streamed):
        models = ["judge", "rule", None, "judge", "judge"]
        assert [result["model"] for result in found] == models
        assert [result["id"] for result in found] == list("01234")
        assert [result["score"] for result in found] == [1.0, 1.0, None, 1.0, 1.0]
        assert found[2]["status"] == "invalid"
        assert found[2]["reason"] == "model: no model is named 'rul'; choose from judge, rule"


async def test_an_explanation_and_a_group_are_of_the_model_that_they_name() -> None:
    body = {"question": "?", "responses": ["a", "aa"], "id": "g"}
    found = await dispatcher().score_group({**body, "model": "rule"})
    assert [(r["score"], r["model"]) for r in found["results"]] == [(0.5, "rule"), (1.0, "rule")]
    refused = await dispatcher().score_group({**body, "model": "rul"})
    assert (refused["status"], refused["id"]) == ("invalid", "g")
    assert [r["status"] for r in refused["results"]] == ["invalid"] * 2
    explained = await dispatcher().explain({**GOOD, "model": "rul", "id": "e"})
    assert (explained["result"]["status"], explained["result"]["id"]) == ("invalid", "e")


@pytest.fixture
def handle() -> Iterator[Handle]:
    """Of two replicas, which answer an item unless it is to wait."""

    class Answered(Call):
        def __await__(self) -> Any:
            if self._items[0]["id"] == "wait":
                yield from asyncio.Event().wait().__await__()
            return (yield from super().__await__())

    with replicas(2):
        yield Handle(right, right, call=Answered)


async def test_a_result_is_streamed_before_the_slowest_is_done(handle: Handle) -> None:
    fields: dict[str, Any] = {**GOOD, "timeout_s": 0.05}
    items = [{**fields, "id": name, "group": name} for name in ("wait", "a", "b", "wait", "c")]
    stream = Dispatcher({"judge": handle}, grace_s=0.0).score_stream(items)
    results = [result async for result in stream]
    assert {result["index"] for result in results[:3]} == {1, 2, 4}
    assert [result["status"] for result in results] == ["ok"] * 3 + ["timeout"] * 2
    assert len(set(handle.batches)) == 1  # they take turns with others as one batch


async def test_a_reader_who_leaves_a_stream_cancels_its_calls(handle: Handle) -> None:
    items = [{**GOOD, "id": name} for name in ("a", "wait", "wait")]
    stream = Dispatcher({"judge": handle}).score_stream(items)
    async with aclosing(stream) as results:
        assert (await anext(results))["index"] == 0
    await asyncio.sleep(0)
    assert [call.cancelled for call in handle.calls] == [False, True, True]
