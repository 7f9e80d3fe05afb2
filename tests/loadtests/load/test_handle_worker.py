from __future__ import annotations

from loadtests.load.handle_worker import message_of
from reward_serve.schema import Status, failure


def test_the_services_result_is_passed_on() -> None:
    shed = failure(Status.OVERLOADED, "the queue is full", model="judge", id="1")

    assert message_of(shed) == {"result": shed.model_dump(mode="json")}


def test_a_failure_made_by_the_client_is_lost() -> None:
    for status in (Status.ERROR, Status.TIMEOUT):
        assert message_of(failure(status, "the replica was lost")) == {
            "lost": "the replica was lost"
        }
        assert "result" in message_of(failure(status, "of the engine", model="judge"))
