import asyncio
import itertools
from typing import Any

import pytest

from reward_serve.client import (
    Client,
    HttpRewardClient,
    ScoringError,
    ServiceUnavailableError,
    retrying,
)
from reward_serve.schema import (
    GroupRequest,
    GroupResult,
    ScoreResult,
    Status,
    failure,
    group_failure,
)
from tests.fake_service import FakeService, Reply, dead_url
from tests.fake_transport import FakeTransport

ASKED: dict[str, Any] = {"question": "?", "responses": ["a", "aa"]}
RIGHT = GroupResult.of([ScoreResult(status=Status.OK, score=s) for s in (0.5, 1.0)])


class Scripted(FakeTransport):
    """Answers groups in turn, the last answer again and again."""

    def __init__(self, *answers: GroupResult | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    async def ascore_batch(self, requests: Any) -> list[ScoreResult]:
        raise NotImplementedError

    async def ascore_group(self, request: dict[str, Any]) -> GroupResult:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def failed(status: Status, **fields: Any) -> GroupResult:
    return group_failure(failure(status, "no", **fields), 2)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, "_backoff_s", lambda attempt: 0.01)


def test_over_http_each_response_has_a_result_in_order(service: FakeService) -> None:
    with HttpRewardClient(service.url) as client:
        reply = client.score_group({**ASKED, "id": "g"})
        asyncio.run(client.ascore_group(GroupRequest.model_validate(ASKED)))
        client.score_group({**ASKED, "responses": ("a", "aa")})
    assert [result.score for result in reply.results] == [0.5, 1.0]
    assert (reply.id, reply.status) == ("g", Status.OK)
    counts = client.counters.snapshot()
    assert (counts["asked"], counts["ok"], counts["failed"]) == (6, 6, 0)


def test_a_group_too_large_is_a_typed_failure_for_each_response_without_a_service_too() -> None:
    client = HttpRewardClient(dead_url(), max_attempts=1)
    reply = client.score_group({**ASKED, "responses": ["a"] * 70})
    assert [result.status for result in reply.results] == [Status.ERROR] * 70


@pytest.mark.parametrize(
    ("on_failure", "scores"),
    [("none", [None, 1.0]), (None, [None, 1.0]), (0.0, [0.0, 1.0]), ("raise", None)],
)
def test_on_failure_is_of_each_response(service: FakeService, on_failure: Any, scores: Any) -> None:
    client = HttpRewardClient(service.url, on_failure=on_failure)
    asked = {**ASKED, "responses": ["", "aa"]}
    if scores is None:
        with pytest.raises(ScoringError, match="error: the engine is gone"):
            client.score_group(asked)
    else:
        assert [result.score for result in client.score_group(asked).results] == scores


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"strategy": "random"}, "strategy: Input should be"),
        ({"metadata": {"a": object()}}, "metadata: cannot be written as JSON: Object of type obj"),
    ],
)
def test_an_invalid_group_is_invalid_for_each_response(
    service: FakeService, fields: dict[str, Any], message: str
) -> None:
    reply = HttpRewardClient(service.url).score_group({**ASKED, **fields})
    assert [result.status for result in reply.results] == [Status.INVALID] * 2
    assert str(reply.reason).startswith(message)


@pytest.mark.parametrize(
    "first",
    [
        ServiceUnavailableError("gone"),
        failed(Status.ERROR),
        failed(Status.OVERLOADED, details={"retry_after_s": 0.02}),
    ],
)
def test_a_group_without_any_score_is_asked_again_if_that_may_help(first: Any) -> None:
    transport = Scripted(first, RIGHT)
    reply = Client(transport).score_group(ASKED)
    assert [result.score for result in reply.results] == [0.5, 1.0]
    first_s, second_s = (asked["timeout_s"] for asked in transport.asked)
    assert second_s < first_s == 60.0


@pytest.mark.parametrize(
    "answer",
    [
        failed(Status.TIMEOUT),
        failed(Status.INVALID),
        GroupResult.of([RIGHT.results[0], failure(Status.ERROR, "gone")]),
        ServiceUnavailableError("no such route", status_code=404),
    ],
)
def test_a_group_that_is_final_is_not_asked_again(answer: Any) -> None:
    client = Client(Scripted(answer), on_failure="none")
    client.score_group(ASKED)
    assert client.counters.snapshot()["retried"] == 0


def test_an_answer_that_is_no_groups_is_an_error(service: FakeService) -> None:
    short = RIGHT.model_copy(update={"results": RIGHT.results[:1]}).model_dump(mode="json")
    other = {**RIGHT.model_dump(mode="json"), "id": "another's"}
    for content, reason in (
        (other, 'with the result of "another\'s"'),
        (short, "not answered in full"),
        ({"status": "ok"}, "not that of a group"),
    ):
        client = HttpRewardClient(service.url, max_attempts=1)
        service.replies["/v1/score/group"] = Reply(content)
        assert reason in (client.score_group(ASKED).reason or "")


def test_a_member_whose_answer_is_lost_has_its_place_when_it_is_asked_again(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, answers = service.answer, itertools.count()

    def lose_the_first(call: Any) -> Reply:
        reply = answer(call)
        if next(answers) == 0:
            raise ConnectionAbortedError
        return reply

    monkeypatch.setattr(service, "answer", lose_the_first)
    members = [{"question": "?", "response": r, "group": "g", "group_size": 2} for r in ("a", "aa")]
    with HttpRewardClient(service.url, max_batch=1, timeout_s=8) as client:
        results = asyncio.run(client.ascore_batch(members))
    assert [(result.score, result.id) for result in results] == [(0.5, None), (1.0, None)]
    assert len({call.body["requests"][0]["id"] for call in service.calls}) == 2
    assert len(service.calls) == 3
