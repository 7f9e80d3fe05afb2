"""Reported: a finished verdict was held until its whole batch was done."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from reward_serve.client import Client, HttpRewardClient, ScoringError
from reward_serve.client.transport import HandleTransport
from reward_serve.reward_models.base import InvalidRequestError, RewardModel, Trace
from reward_serve.routing.dispatch import Dispatcher
from reward_serve.schema import ScoreRequest, ScoreResult, Status
from tests.fake_ingress import FakeHandle, application
from tests.fake_service import free_port


class Waiting(RewardModel):
    """Waits for as many seconds as the response says; refuses another response."""

    def __init__(self) -> None:
        self.left = 0

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        try:
            await asyncio.sleep(float(request.judged))
        except ValueError:
            raise InvalidRequestError("response: is no number") from None
        except asyncio.CancelledError:
            self.left += 1
            raise
        return ScoreResult(status=Status.OK, score=1.0, source="judge")

    def describe(self) -> dict[str, Any]:
        return {}


@contextmanager
def by_handle(model: Waiting, **settings: Any) -> Iterator[Client]:
    transport = HandleTransport("reward")
    transport._dispatcher = Dispatcher({"rule": FakeHandle("rule", lambda: None, model)})
    yield Client(transport, **settings)


@contextmanager
def over_http(model: Waiting, **settings: Any) -> Iterator[Client]:
    app = application(FakeHandle("rule", lambda: None, model))
    config = uvicorn.Config(app, "127.0.0.1", port := free_port(), log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        with HttpRewardClient(f"http://127.0.0.1:{port}", **settings) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(10)


WAYS = pytest.mark.parametrize("way", [by_handle, over_http])


def asked(*responses: str) -> list[dict[str, Any]]:
    return [{"response": response, "timeout_s": 30} for response in responses]


@WAYS
async def test_an_item_that_hangs_holds_no_other_of_its_batch(way: Any) -> None:
    with way(model := Waiting(), on_failure="none") as client:
        quick = ["0.05"] * 31  # on both sides, so that the one that hangs is not sent alone
        calls = [asyncio.ensure_future(client.ascore(r)) for r in asked(*quick, "60", *quick)]
        async with asyncio.timeout(20):
            results = await asyncio.gather(*calls[:31], *calls[32:])
        assert {result.score for result in results} == {1.0}
        assert not calls[31].done()

        calls[31].cancel()  # and with it the last of its call's work
        async with asyncio.timeout(20):
            while not model.left:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@WAYS
async def test_a_batch_that_raises_has_the_verdicts_of_the_others(way: Any) -> None:
    with way(Waiting(), on_failure="raise") as client:
        for attempt in (client.ascore_batch, lambda e: asyncio.to_thread(client.score_batch, e)):
            with pytest.raises(ScoringError, match=r"is no number; 1 of 3 have none") as caught:
                await attempt(asked("0.05", "x", "0.1"))
            statuses = [result.status for result in caught.value.results]
            assert statuses == [Status.OK, Status.INVALID, Status.OK]
            assert caught.value.result is caught.value.results[1]
