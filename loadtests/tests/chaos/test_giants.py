from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from loadtests.chaos import giants
from loadtests.chaos.giants import BATCH_BYTES, TOO_LARGE_BYTES, Giants, batch, giant
from loadtests.chaos.load import RequestRecord, Tally
from loadtests.chaos.scenarios.giants import joined, not_slower, settled
from reward_serve.client.http import HttpTransport
from reward_serve.config.app import ServerConfig
from reward_serve.config.models import RuleModel
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.rule import RuleRewardModel
from tests.fake_service import FakeService

MODEL = {"name": "rule", "kind": "rule", "rule": {"verifier": "gsm8k_strict_last"}}


async def scored(body: dict[str, Any]) -> dict[str, Any]:
    model = RuleRewardModel(RuleModel.model_validate(MODEL))
    return await Scorer("rule", model, Admission(8, 8), 8).score(body)


async def test_a_giant_item_has_the_maximum_size_and_its_right_score() -> None:
    rng = Random(0)
    questions = [giant("run", rng)[0] for _ in range(6)]
    for question in questions:
        assert len(question.body["response"].encode()) > 8_388_000
        assert (await scored(question.body))["score"] == question.right
    assert {question.right for question in questions} == {0.0, 1.0}
    (over,) = giant("run", rng, over=1)
    sent = await scored(over.body)
    assert (sent["status"], "max_item_chars" in sent["reason"]) == ("invalid", True)


def test_batches_fit_the_body_limit_and_the_too_large_one_does_not() -> None:
    rng, limits = Random(0), ServerConfig()
    for _ in range(6):
        bodies = [question.body for question in batch("run", rng)]
        size = len(json.dumps({"requests": bodies}))
        assert BATCH_BYTES[0] - 2**20 < size < limits.max_body_bytes
        assert len(bodies) <= limits.max_batch_items
    too_large = [question.body for question in batch("run", rng, TOO_LARGE_BYTES)]
    assert len(json.dumps({"requests": too_large})) > limits.max_body_bytes


async def test_giants_are_sent_every_way_and_refusals_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = {"DEFAULT_ITEM_CHARS": 10_000, "LONG_CHARS": (1000,), "BATCH_BYTES": (4e3, 6e3)}
    for name, value in {
        **small,
        "PAUSE_S": 0.05,
        "TOO_LARGE_BYTES": 8e3,
        "_REFUSED_EVERY_S": 1.0,
    }.items():
        monkeypatch.setattr(giants, name, value)
    with FakeService() as service:
        monkeypatch.setattr(giants, "HandleTransport", lambda app: HttpTransport(service.url))
        sent = await giants._ask_for(service.url, 0.5)
    by_way = Counter((one.way, one.outcome) for one in sent.tally.records)
    assert {way for way, outcome in by_way if outcome == "right"} == {
        "item by handle", "item over HTTP", "batch by handle", "batch over HTTP"
    }  # fmt: skip
    assert {outcome for way, outcome in by_way if way == "batch streamed"} == {"lost"}
    assert sent.bodies > 5
    assert sent.refused == {"body over 32 MiB: 200": 1}  # it is none to this service


def test_memory_has_settled_when_replica_and_ingress_are_about_as_large_as_before() -> None:
    before = {"rule": 200.0, "ingress": 1000.0, "ProxyActor": 100.0}
    assert settled(before, {"rule": 350.0, "ingress": 1250.0, "ProxyActor": 900.0})
    assert not settled(before, {**before, "rule": 351.0})
    assert not settled(before, {**before, "ingress": 1251.0})


def test_a_p95_that_more_than_doubles_or_is_missing_breaks_the_bound() -> None:
    def way(calm: float, among: float | None) -> dict[str, dict[str, float | None]]:
        return {"calm": {"p95_s": calm}, "among": {"p95_s": among}}

    small = {"a": way(0.01, 0.02), "b": way(0.01, 0.021), "c": way(0.01, None)}
    assert list(not_slower(small).values()) == [True, False, False]


def test_joined_tallies_add_up() -> None:
    one, other = Tally(), Giants().tally
    one.asked, other.asked = 2, 1
    other.records = [RequestRecord("http", 0.0, 1.0, "right")]
    figures = joined(one, other).figures()
    assert (figures["asked"], figures["right"], figures["lost"]) == (3, 1, 2)
