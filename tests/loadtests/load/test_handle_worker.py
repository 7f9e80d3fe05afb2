from __future__ import annotations

from loadtests.load.handle_worker import told
from reward_serve.schema import Status, failure


def test_what_the_service_said_is_passed_on() -> None:
    shed = failure(Status.OVERLOADED, "the queue is full", model="judge", id="1")

    assert told(shed) == {"result": shed.model_dump(mode="json")}


def test_an_error_that_the_client_made_up_was_no_answer() -> None:
    for status in (Status.ERROR, Status.TIMEOUT):
        assert told(failure(status, "the replica was lost")) == {"lost": "the replica was lost"}
        assert "result" in told(failure(status, "of the engine", model="judge"))
