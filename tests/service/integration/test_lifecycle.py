"""Deadlines, cancellation, scaling, and what happens when something dies."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import pytest
from ray import serve

from deployments.local import APP
from reward_serve import HttpRewardClient, RewardClient, ScoreResult, Status
from tests.service.integration.applications import RULES, rule
from tests.service.integration.conftest import Deploy, wait_for, wait_for_app

LONG = {
    "response": "Nine eggs at two dollars make eighteen, or 18 in all",
    "reference": "18",
    "template": "solution",
    "options": {"mode": "generate", "max_tokens": 512},
}
ASKED = {"response": "Nine eggs at two dollars make 18 in all", "reference": "18"}


def replica(http: HttpRewardClient) -> dict[str, Any]:
    return http.models()[0]


def test_a_deadline_is_kept_and_answered_504(url: str, http: HttpRewardClient) -> None:
    began = time.monotonic()
    reply = httpx.post(f"{url}/v1/score", json={**LONG, "timeout_s": 0.5}, timeout=30)
    assert reply.status_code == 504
    assert (reply.json()["status"], reply.json()["score"]) == ("timeout", None)
    assert time.monotonic() - began < 8
    wait_for("the engine to be free", lambda: replica(http)["items"] == 0, 8)


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_a_caller_that_leaves_ends_its_work(url: str, http: HttpRewardClient, accept: str) -> None:
    body = {"requests": [LONG] * 4}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/score/batch", json=body, headers={"accept": accept}, timeout=1.0)
    wait_for("the work to be aborted", lambda: replica(http)["items"] == 0, 8)
    began = time.monotonic()
    assert http.score(ASKED).status is Status.OK
    assert time.monotonic() - began < 8, "the engine is still busy with the dead caller's work"


def test_beyond_the_queue_items_are_shed_at_once(rule_url: str) -> None:
    asked = {"response": "wait", "reference": "18", "model": "shed", "timeout_s": 5}
    with HttpRewardClient(rule_url) as client, ThreadPoolExecutor(1) as pool:
        batch = pool.submit(RewardClient(RULES, model="shed").score_batch, [asked] * 100)
        (place,) = [n for n, m in enumerate(client.models()) if m["name"] == "shed"]
        wait_for("the queue to be full", lambda: client.models()[place]["items"] == 20, 30)
        reply = httpx.post(f"{rule_url}/v1/score", json=asked)
        results = batch.result()
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert (reply.json()["status"], reply.json()["score"]) == ("overloaded", None)
    statuses = [result.status.value for result in results]
    assert statuses == ["timeout"] * 20 + ["overloaded"] * 80
    assert {result.score for result in results} == {None}


@pytest.mark.slow
def test_replicas_follow_the_items_up_and_down(deploy_app: Deploy) -> None:
    delays = {"look_back_period_s": 3, "upscale_delay_s": 0, "downscale_delay_s": 2}
    scaling = {"min_replicas": 1, "max_replicas": 2, "target_items": 20, **delays}
    client = deploy_app("scaled", {"models": [rule("rule", "gsm8k", autoscaling=scaling)]})
    wait_for_app("scaled")
    stop = threading.Event()
    lost: list[ScoreResult] = []

    def running() -> int:
        return states("scaled", "rule").get("RUNNING", 0)

    def load() -> None:
        # A few calls of many items: Serve, counting calls, would see no reason to scale.
        batch = [{"response": "so the eggs are 18 in all " * 40, "reference": "18"}] * 400
        while not stop.is_set():
            lost.extend(r for r in client.score_batch(batch) if r.status is Status.OVERLOADED)

    assert running() == 1
    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        wait_for("a second replica", lambda: running() == 2, 60)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    wait_for("the second replica to go", lambda: running() == 1, 60)
    assert not lost


@pytest.mark.kills
def test_a_killed_engine_fails_its_callers_and_ends_its_replica(http: HttpRewardClient) -> None:
    engine, family = engine_core_of(replica(http)["pid"])
    kill_under_load(engine.pid, family, http)
    wait_for("Serve to start another", lambda: "STARTING" in states(APP, "judge"), 30)


@pytest.mark.slow
@pytest.mark.kills
def test_a_killed_replica_leaves_no_orphan_and_is_replaced(http: HttpRewardClient) -> None:
    wait_for("a replica", http.is_ready, 150)
    before = replica(http)["pid"]
    _, family = engine_core_of(before)
    kill_under_load(before, family, http)
    wait_for("a new replica", lambda: http.is_ready() and replica(http)["pid"] != before, 150)
    assert http.score(ASKED).status is Status.OK


@pytest.mark.slow
def test_a_replica_whose_engine_hangs_exits(deploy_app: Deploy) -> None:
    engine = {"model": "bundled", "stall_timeout_s": 2}
    client = deploy_app("hung", {"models": [{"name": "judge", "kind": "judge", "engine": engine}]})
    wait_for_app("hung", timeout_s=150)
    describe = serve.get_deployment_handle("judge", "hung").describe
    core, family = engine_core_of(describe.remote().result(timeout_s=30)["pid"])
    core.suspend()
    result = client.score({**ASKED, "timeout_s": 1})
    assert (result.status, result.score) == (Status.TIMEOUT, None)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive


def kill_under_load(pid: int, family: list[psutil.Process], http: HttpRewardClient) -> None:
    """Kill the process while it has work: its callers get an error, and its family ends."""
    once = RewardClient(APP, max_attempts=1)
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(once.score, LONG) for _ in range(4)]
        wait_for("the callers' work to begin", lambda: replica(http)["items"] >= 4, 30)
        os.kill(pid, signal.SIGKILL)
        ended = [answer.result(timeout=30) for answer in answers]
    assert {(answer.status, answer.score) for answer in ended} == {(Status.ERROR, None)}
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive


def engine_core_of(replica_pid: int) -> tuple[psutil.Process, list[psutil.Process]]:
    """The process that holds the weights, and the replica's whole family.

    Told by its memory: its title is not to be read everywhere.
    """
    parent = psutil.Process(replica_pid)
    children = parent.children(recursive=True)
    return max(children, key=lambda child: child.memory_info().rss), [parent, *children]


def states(app: str, deployment: str) -> dict[str, int]:
    """How many replicas are in each state."""
    counts = serve.status().applications[app].deployments[deployment].replica_states
    return {str(state): count for state, count in counts.items()}
