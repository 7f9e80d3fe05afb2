"""Long rollouts and large batches, beyond what Serve's own messages hold, by every way there is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from ray import serve

from reward_serve import HttpRewardClient, RewardClient, ScoreResult
from reward_serve.client import connect
from reward_serve.schema import MAX_ITEM_BYTES, MAX_METADATA_BYTES
from tests.service.integration.applications import GATEWAY, SEVERAL

MODEL = {"model": SEVERAL}
LONG = "So far, so good.\n" * 9_412  # 160 KB
BATCH = [
    {"id": str(n), "response": f"{LONG}#### {n}", "reference": "3", "group": str(n // 8), **MODEL}
    for n in range(64)
]
RIGHT = [float(n == 3) for n in range(64)]
Ask = Callable[[list[dict[str, Any]]], list[ScoreResult]]


def streamed(url: str, items: list[dict[str, Any]]) -> list[ScoreResult]:
    headers = {"accept": "application/x-ndjson"}
    found: dict[int, ScoreResult] = {}
    with httpx.stream(
        "POST", f"{url}/v1/score/batch", json={"requests": items}, headers=headers, timeout=60
    ) as reply:
        for line in reply.iter_lines():
            result = json.loads(line)
            index = result.pop("index")
            found[index] = ScoreResult.model_validate(result)
    return [found[index] for index in range(len(items))]


def one_by_one(**target: str) -> Ask:
    """Singles at a time, which the trainers' client sends together."""

    def ask(items: list[dict[str, Any]]) -> list[ScoreResult]:
        client = connect(on_failure="none", timeout_s=60, **target)

        async def all_at_once() -> list[ScoreResult]:
            return list(await asyncio.gather(*map(client.ascore, items)))

        return asyncio.run(all_at_once())

    return ask


def ways(url: str) -> dict[str, Ask]:
    return {
        "by handle": RewardClient(SEVERAL).score_batch,
        "by handle, through the gateway": RewardClient(GATEWAY).score_batch,
        "singles by handle": one_by_one(app=SEVERAL),
        "over HTTP": HttpRewardClient(f"{url}/{SEVERAL}", timeout_s=60).score_batch,
        "singles over HTTP": one_by_one(url=f"{url}/{SEVERAL}"),
        "through the gateway": HttpRewardClient(f"{url}/{GATEWAY}", timeout_s=60).score_batch,
        "streamed": lambda items: streamed(f"{url}/{SEVERAL}", items),
    }


@pytest.mark.timeout(180)
def test_a_batch_of_ten_megabytes_is_scored_in_every_way(url: str) -> None:
    for way, ask in ways(url).items():
        results = ask(BATCH)
        assert [result.score for result in results] == RIGHT, (way, results[0])
        assert [result.id for result in results] == [item["id"] for item in BATCH], way


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_largest_item_there_may_be_is_scored_among_small_ones(url: str) -> None:
    reference = {"reference": "18", **MODEL}
    ending = "\n#### 18"
    giant = "\U0001f600" * (MAX_ITEM_BYTES // 4 - 3) + ending
    small = [{"response": f"#### {n}", **reference} for n in (17, 18)]
    items = [small[0], {"response": giant, **reference}, small[1]]
    for way, ask in ways(url).items():
        assert [result.score for result in ask(items)] == [0.0, 1.0, 1.0], way
    too_long = {"response": giant + "    ", **reference}
    result = HttpRewardClient(f"{url}/{SEVERAL}").score(too_long)
    assert (result.status, result.score) == ("invalid", None)
    assert "max_item_bytes" in str(result.reason)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_echoed_metadata_may_be_larger_than_a_message_together(url: str) -> None:
    metadata = {"note": "é" * (MAX_METADATA_BYTES // 2 - 16)}
    items = [{**item, "response": "#### 3", "metadata": metadata} for item in BATCH] * 2
    for way, ask in ways(url).items():
        results = ask(items)
        assert {result.score for result in results} == {1.0}, way
        assert all(result.metadata == metadata for result in results), way


@pytest.mark.timeout(60)
def test_a_body_over_the_limit_is_a_413_and_the_trainers_client_splits_it(url: str) -> None:
    several = f"{url}/{SEVERAL}"
    items = [{**item, "response": item["response"] * 2} for item in BATCH]  # 20 MB
    body = json.dumps({"requests": items})
    reply = httpx.post(f"{several}/v1/score/batch", content=body, timeout=60)
    assert reply.status_code == 413
    assert "split the batch" in reply.json()["detail"]
    results = connect(url=several, on_failure="none", timeout_s=50).score_batch(items)
    assert [result.score for result in results] == RIGHT


@pytest.mark.timeout(60)
def test_openrlhfs_route_takes_long_rollouts(url: str) -> None:
    body = {
        "query": [f"Q{item['response']}" for item in BATCH],
        "prompts": ["Q"] * 64,
        "labels": ["3"] * 64,
    }
    reply = httpx.post(f"{url}/{GATEWAY}/get_reward?model={SEVERAL}", json=body, timeout=60)
    assert reply.json()["rewards"] == RIGHT


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_replica_killed_amid_long_rollouts_costs_no_verdict(url: str) -> None:
    pid = (
        serve.get_deployment_handle(SEVERAL, SEVERAL).describe.remote().result(timeout_s=30)["pid"]
    )
    client = connect(app=SEVERAL, on_failure="none", timeout_s=120)
    items = [{**item, "id": f"{n}-{item['id']}"} for n in range(8) for item in BATCH]  # 82 MB
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.score_batch, items)
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        results = asked.result(timeout=150)
    assert [result.score for result in results] == RIGHT * 8
