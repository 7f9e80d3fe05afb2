"""Deadlines, cancellation, scaling, and what happens when something dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from deployments.local import APP
from loadtests.chaos import processes
from reward_serve import HttpRewardClient, RewardClient, ScoreResult, Status
from tests.integration.conftest import Deploy, wait_for

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
    assert reply.json()["status"] == "timeout"
    assert reply.json()["score"] is None
    assert time.monotonic() - began < 3
    wait_for("the engine to be free", lambda: replica(http)["items"] == 0, 2)


def test_a_caller_that_leaves_takes_its_work_with_it(url: str, http: HttpRewardClient) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/score/batch", json={"requests": [LONG] * 4}, timeout=1.0)
    wait_for("the work to be aborted", lambda: replica(http)["items"] == 0, 3)
    began = time.monotonic()
    assert http.score(ASKED).status is Status.OK
    assert time.monotonic() - began < 3, "the engine is still busy with the dead caller's work"


def test_a_broken_stream_takes_its_work_with_it(url: str, http: HttpRewardClient) -> None:
    headers = {"accept": "application/x-ndjson"}
    body = {"requests": [ASKED, *([LONG] * 4)]}
    with httpx.stream("POST", f"{url}/v1/score/batch", json=body, headers=headers) as reply:
        lines = reply.iter_lines()  # closes the stream when it is collected
        next(lines)
        assert replica(http)["items"] == 4
    wait_for("the work to be aborted", lambda: replica(http)["items"] == 0, 3)


def test_beyond_the_queue_items_are_shed_at_once(deploy_app: Deploy) -> None:
    rule = {"verifier": "function", "function": "tests.rules.own_functions:slow"}
    limits = {"max_concurrent_items": 10, "max_queued_items": 10}
    model = {"name": "rule", "kind": "rule", "rule": rule, **limits}
    client = deploy_app("shed", {"models": [model]})
    wait_for_app("shed")
    results = client.score_batch([{"response": "#### 18", "reference": "18"}] * 100)
    statuses = [result.status.value for result in results]
    assert statuses == ["ok"] * 20 + ["overloaded"] * 80
    assert all(result.score is None for result in results[20:])


def test_replicas_follow_the_items_up_and_down(deploy_app: Deploy) -> None:
    scaling = {
        "min_replicas": 1,
        "max_replicas": 2,
        "target_items": 20,
        "look_back_period_s": 3,
        "upscale_delay_s": 0,
        "downscale_delay_s": 2,
    }
    client = deploy_app(
        "scaled", {"models": [{"name": "rule", "kind": "rule", "autoscaling": scaling}]}
    )
    wait_for_app("scaled")
    assert running("scaled") == 1
    stop = threading.Event()
    lost: list[ScoreResult] = []

    def load() -> None:
        # A few calls of many items: Serve, counting calls, would see no reason to scale.
        batch = [{"response": "so the eggs are 18 in all " * 40, "reference": "18"}] * 400
        while not stop.is_set():
            lost.extend(r for r in client.score_batch(batch) if r.status is Status.OVERLOADED)

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        wait_for("a second replica", lambda: running("scaled") == 2, 60)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    wait_for("the second replica to go", lambda: running("scaled") == 1, 60)
    assert not lost


@pytest.mark.parametrize("broken", ["missing", "corrupt"])
def test_a_broken_model_folder_fails_the_deployment_within_seconds(
    deploy_app: Deploy, tmp_path: Path, broken: str
) -> None:
    folder = tmp_path / "model"
    if broken == "corrupt":
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "tokenizer.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"\x10\x00\x00")
    engine = {"model": str(folder)}
    model = {"name": "broken", "kind": "judge", "engine": engine, "resources": {"num_cpus": 1}}
    deploy_app("broken", {"models": [model]})
    took = wait_for("the deployment to fail", lambda: status_of("broken") == "DEPLOY_FAILED", 60)
    message = serve.status().applications["broken"].deployments["broken"].message
    assert str(folder) in message
    assert "engine.model" in message
    assert took < 30


@pytest.mark.parametrize("victim", ["engine core", pytest.param("replica", marks=pytest.mark.slow)])
def test_a_killed_process_is_replaced_and_leaves_no_orphan(
    http: HttpRewardClient, handle: RewardClient, victim: str
) -> None:
    before = replica(http)["pid"]
    engine, family = engine_core_of(before)
    answers: list[ScoreResult] = []

    def ask() -> None:
        answers.append(handle.score(LONG))

    callers = [threading.Thread(target=ask) for _ in range(4)]
    for caller in callers:
        caller.start()
    wait_for("the callers' work to begin", lambda: replica(http)["items"] >= 4, 10)
    os.kill(engine.pid if victim == "engine core" else before, signal.SIGKILL)
    for caller in callers:
        caller.join(timeout=30)
    assert len(answers) == 4, "a caller hangs"
    assert {(answer.status, answer.score) for answer in answers} == {(Status.ERROR, None)}
    psutil.wait_procs(family, timeout=10)
    assert not [process for process in family if process.is_running()]
    wait_for("a new replica", lambda: http.is_ready() and replica(http)["pid"] != before, 150)
    assert http.score(ASKED).status is Status.OK


def test_a_controller_that_is_killed_is_replaced_and_takes_the_replicas_over(
    http: HttpRewardClient, cluster: str
) -> None:
    before, controller = replica(http)["pid"], processes.only(processes.CONTROLLER)
    processes.kill(controller)

    def taken_over() -> bool:
        try:
            return controller not in processes.actors(processes.CONTROLLER) and (
                status_of(APP) == "RUNNING"
            )
        except (KeyError, RayError, RayServeException):
            return False

    wait_for("a new controller", taken_over, 60)
    assert replica(http)["pid"] == before
    assert http.score(ASKED).status is Status.OK


@pytest.mark.slow
def test_a_replica_whose_engine_hangs_exits(deploy_app: Deploy) -> None:
    engine = {"model": "bundled", "stall_timeout_s": 2}
    client = deploy_app("hung", {"models": [{"name": "judge", "kind": "judge", "engine": engine}]})
    wait_for_app("hung", timeout_s=150)
    describe = serve.get_deployment_handle("judge", "hung").describe
    pid = describe.remote().result(timeout_s=30)["pid"]
    core, family = engine_core_of(pid)
    core.suspend()
    result = client.score({**ASKED, "timeout_s": 1})
    assert (result.status, result.score) == (Status.TIMEOUT, None)
    _, alive = psutil.wait_procs(family, timeout=25)
    assert not alive


def engine_core_of(replica_pid: int) -> tuple[psutil.Process, list[psutil.Process]]:
    """The process that holds the weights, and the replica's whole family.

    Told by its memory: its title is not to be read everywhere.
    """
    parent = psutil.Process(replica_pid)
    children = parent.children(recursive=True)
    return max(children, key=lambda child: child.memory_info().rss), [parent, *children]


def status_of(app: str) -> str:
    return str(serve.status().applications[app].status.value)


def wait_for_app(app: str, timeout_s: float = 60) -> None:
    wait_for(f"{app} to run", lambda: status_of(app) == "RUNNING", timeout_s)


def running(app: str) -> int:
    states = serve.status().applications[app].deployments["rule"].replica_states
    return sum(count for state, count in states.items() if str(state) == "RUNNING")
