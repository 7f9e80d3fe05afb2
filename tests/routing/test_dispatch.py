"""Which model is asked, by what name; what comes of it is tested through the ingress."""

from __future__ import annotations

from typing import Any

import pytest

from reward_serve.routing.dispatch import Dispatcher, UnknownModelError
from tests.fake_ingress import GOOD, FakeHandle, served


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
    with pytest.raises(UnknownModelError, match="choose of judge, rule") as refusal:
        dispatcher().pick(asked)
    assert len(str(refusal.value)) < 160


async def test_items_of_a_batch_go_each_to_its_model() -> None:
    asked = [None, "rule", "gpt-4o-mini", "judge"]
    results = await dispatcher().batch([{**GOOD, "model": name} for name in asked])
    assert [result["model"] for result in results] == ["judge", "rule", "judge", "judge"]
    assert {result["score"] for result in results} == {1.0}


async def test_results_of_a_stream_too() -> None:
    asked = [None, "rule", "gpt-4o-mini", "rule"]
    items = [{**GOOD, "model": name, "id": str(n)} for n, name in enumerate(asked)]
    chunks = [chunk async for chunk in dispatcher().stream(items)]
    found = {r["index"]: (r["id"], r["model"], r["status"]) for chunk in chunks for r in chunk}
    models = ["judge", "rule", "judge", "rule"]
    assert found == {n: (str(n), model, "ok") for n, model in enumerate(models)}


def test_clients_by_handle_learn_each_models_application() -> None:
    assert dispatcher().applications == {"judge": "tests", "rule": "tests"}


def test_an_alias_is_known_on_every_path() -> None:
    with served(aliases={"verifier": "rule"}) as client:
        one = client.post("/v1/score", json={**GOOD, "model": "verifier"}).json()
        batch = client.post("/v1/score/batch", json={"requests": [{**GOOD, "model": "verifier"}]})
    assert (one["score"], one["model"]) == (1.0, "rule")
    assert batch.json()["results"][0]["score"] == 1.0
