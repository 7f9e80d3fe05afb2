"""Log-probabilities by the client: arrays of their own sequence, or a typed failure."""

import asyncio
from typing import Any

import numpy as np
import pytest

from reward_serve.client import HttpRewardClient, ScoringError, retrying
from reward_serve.engines.base import EngineError
from tests.fake_service import FakeService, Reply, dead_url
from tests.fake_teacher import FakeTeacherEngine, expected, teacher

IDS = [5, 7, 11, 13, 17]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_backoff_s", lambda attempt: 0.01)


def test_each_sequence_gets_its_own_arrays() -> None:
    asked: list[dict[str, Any]] = [
        {"token_ids": [*IDS, n], "start": 3, "top_k": n % 3} for n in range(20)
    ]
    with FakeService(teacher()) as service, HttpRewardClient(service.url) as client:
        results = client.logprobs(asked)
        awaited = asyncio.run(client.alogprobs([{"token_ids": np.array(IDS), "id": "mine"}]))
        assert client.counters.snapshot()["ok"] == 21
    for request, result in zip(asked, results, strict=True):
        np.testing.assert_array_equal(result.logprobs, expected(request["token_ids"])[2:])
        assert (result.id, result.start) == (None, 3)
        shape = (3, request["top_k"]) if request["top_k"] else None
        assert (None if result.top_ids is None else result.top_ids.shape) == shape
    assert awaited[0].id == "mine"


@pytest.mark.parametrize("on_failure", ["none", "rule", "lexical", 0.5])
def test_nothing_replaces_a_log_probability(on_failure: Any) -> None:
    broken = teacher(FakeTeacherEngine(EngineError("the engine core died")))
    with FakeService(broken) as service:
        settings: dict[str, Any] = {"max_attempts": 2, "on_failure": on_failure}
        with HttpRewardClient(service.url, **settings) as client:
            (result,) = client.logprobs([{"token_ids": IDS, "id": "a"}])
            assert len(service.calls) == 2
            assert client.counters.snapshot()["fallback"] == 0
    assert (result.status, result.id, result.logprobs) == ("error", "a", None)


def test_raising_has_all_results() -> None:
    with (
        FakeService(teacher()) as service,
        HttpRewardClient(service.url, on_failure="raise") as client,
        pytest.raises(ScoringError, match="1 of 2 have none") as failed,
    ):
        client.logprobs([{"token_ids": IDS}, {"token_ids": [1, 5000]}])
    assert [result.status for result in failed.value.results] == ["ok", "invalid"]


def test_a_dead_service_and_what_json_cannot_carry_are_typed() -> None:
    with HttpRewardClient(dead_url(), max_attempts=1) as client:
        results = client.logprobs([{"token_ids": IDS}, {"token_ids": [object(), 2]}])
    assert [result.status for result in results] == ["error", "invalid"]
    assert "token_ids: cannot be written as JSON" in (results[1].reason or "")


@pytest.mark.parametrize(
    "change",
    [
        {"logprobs": [-1.0]},
        {"logprobs": None},
        {"start": 2},
        {"id": "another's"},
        {"logprobs": "not base64"},
    ],
)
def test_an_answer_that_is_not_the_sequences_own_is_an_error(change: dict[str, Any]) -> None:
    good = {"id": "a", "status": "ok", "start": 1, "logprobs": [-1.0] * 4}
    with FakeService() as service:
        service.replies["/v1/logprobs"] = Reply({**good, **change})
        with HttpRewardClient(service.url, max_attempts=1) as client:
            (result,) = client.logprobs([{"token_ids": IDS, "id": "a"}])
    assert (result.status, result.logprobs) == ("error", None)
