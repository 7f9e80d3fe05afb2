"""Which model is asked, by what name; what comes of it is tested through the ingress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ray.exceptions import RayActorError

from reward_serve.routing import dispatch
from reward_serve.routing.dispatch import Dispatcher, UnknownModelError
from tests.fake_handle import Call
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
    with pytest.raises(UnknownModelError, match="choose from judge, rule") as refusal:
        dispatcher().pick(asked)
    assert len(str(refusal.value)) < 160


async def test_items_of_a_batch_go_each_to_its_model() -> None:
    asked = [None, "rule", "gpt-4o-mini", "judge"]
    results = await dispatcher().score_batch([{**GOOD, "model": name} for name in asked])
    assert [result["model"] for result in results] == ["judge", "rule", "judge", "judge"]
    assert {result["score"] for result in results} == {1.0}


async def test_results_of_a_stream_too() -> None:
    asked = [None, "rule", "gpt-4o-mini", "rule"]
    items = [{**GOOD, "model": name, "id": str(n)} for n, name in enumerate(asked)]
    chunks = [chunk async for chunk in dispatcher().score_stream(items)]
    found = {r["index"]: (r["id"], r["model"], r["status"]) for chunk in chunks for r in chunk}
    models = ["judge", "rule", "judge", "rule"]
    assert found == {n: (str(n), model, "ok") for n, model in enumerate(models)}


async def test_an_item_of_an_unknown_model_is_invalid_and_names_those_there_are() -> None:
    items = [{**GOOD, "model": name, "id": str(n)} for n, name in enumerate(["rule", "rul", None])]
    results = await dispatcher().score_batch(items)
    chunks = [chunk async for chunk in dispatcher().score_stream(items)]
    streamed = sorted((r for chunk in chunks for r in chunk), key=lambda r: r["index"])
    explained = (await dispatcher().explain(items[1]))["result"]
    for found in (results, streamed):
        assert [(r["id"], r["status"]) for r in found] == [
            ("0", "ok"),
            ("1", "invalid"),
            ("2", "ok"),
        ]
        assert found[1]["score"] is None
    for refused in (results[1], streamed[1], explained):
        assert refused["reason"] == "model: no model is named 'rul'; choose from judge, rule"
    (alone,) = await dispatcher().score_batch(items[1:2])
    assert alone == results[1]


def test_clients_by_handle_learn_each_models_application() -> None:
    assert dispatcher().applications == {"judge": "tests", "rule": "tests"}


def test_an_alias_is_known_on_every_path() -> None:
    with served(aliases={"verifier": "rule"}) as client:
        one = client.post("/v1/score", json={**GOOD, "model": "verifier"}).json()
        batch = client.post("/v1/score/batch", json={"requests": [{**GOOD, "model": "verifier"}]})
    assert (one["score"], one["model"]) == (1.0, "rule")
    assert batch.json()["results"][0]["score"] == 1.0


class Ingress:
    """An application's ingress, which says what it serves; ``None`` where there is none yet."""

    def __init__(self, asked: list[str], application: str, about: dict[str, Any] | None) -> None:
        self._asked, self._application, self._about = asked, application, about
        self.models = self

    def options(self, **_: Any) -> Ingress:
        return self

    def remote(self) -> Call:
        self._asked.append(self._application)
        return Call(RayActorError() if self._about is None else lambda _: self._about, [])


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> tuple[Dispatcher, dict[str, Any], list[str]]:
    """A gateway of three applications, what these say of themselves, and which was asked."""
    abouts: dict[str, Any] = {
        "thinker": {"aliases": {"Qwen/Qwen3-32B": "judge", "both/model": "judge"}},
        "cheap": {"aliases": {"both/model": "rule", "Qwen/Qwen3-32B": "of another application"}},
        "late": None,
    }
    asked: list[str] = []
    monkeypatch.setattr(dispatch, "handle_of", lambda app, name: Ingress(asked, app, abouts[app]))
    handles: Any = {
        name: FakeHandle(name, lambda: None) for name in ("judge", "rule", "classifier")
    }
    for name, application in (("judge", "thinker"), ("rule", "cheap"), ("classifier", "late")):
        handles[name].app_name = application
    return Dispatcher(handles, {"mine": "rule"}, upstream=list(abouts)), abouts, asked


async def test_a_gateway_knows_its_models_checkpoints(gateway: Any) -> None:
    door, _, _ = gateway
    await door.learn(["Qwen/Qwen3-32B"])

    assert door.pick("Qwen/Qwen3-32B") == "judge"
    assert door.pick("mine") == "rule"
    (result,) = await door.score_batch([{**GOOD, "model": "Qwen/Qwen3-32B"}])
    assert (result["model"], result["score"]) == ("judge", 1.0)


async def test_a_checkpoint_of_several_applications_names_none(gateway: Any) -> None:
    door, _, _ = gateway
    await door.learn(["both/model"])

    with pytest.raises(UnknownModelError):
        door.pick("both/model")


async def test_an_application_that_comes_later_is_asked_again(
    gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, abouts, _ = gateway
    await door.learn(["Skywork/Reward"])
    abouts["late"] = {"aliases": {"Skywork/Reward": "classifier"}}
    monkeypatch.setattr(dispatch, "_LEARN_EVERY_S", 0.0)
    await door.learn(["Skywork/Reward"])

    assert door.pick("Skywork/Reward") == "classifier"


async def test_known_names_ask_nobody_and_unknown_ones_now_and_then(gateway: Any) -> None:
    door, _, asked = gateway
    await door.learn([None, "judge", "mine", 7])
    assert asked == []

    await asyncio.gather(*(door.learn([f"no/model-{n}"]) for n in range(20)))
    assert sorted(asked) == ["cheap", "late", "thinker"]


async def test_a_group_is_judged_by_the_model_that_it_names() -> None:
    body = {"question": "?", "responses": ["a", "aa"], "id": "g"}
    found = await dispatcher().score_group({**body, "model": "rule"})
    assert [(r["score"], r["model"]) for r in found["results"]] == [(0.5, "rule"), (1.0, "rule")]
    refused = await dispatcher().score_group({**body, "model": "rul"})
    assert (refused["status"], refused["id"]) == ("invalid", "g")
    assert [r["status"] for r in refused["results"]] == ["invalid"] * 2
