"""Several replicas: groups stay together, batches are split, whoever calls.

Ray's request routers are an alpha API. What of it the router and its callers rely on is tested here
against Ray itself: that the calls of one request are each answered by the replica of their session.
"""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import httpx
import pytest
from ray import serve

from reward_serve import HttpRewardClient, RewardClient, Status
from reward_serve.routing.dispatch import first_choice, group_key, known_replicas
from tests.service.integration.applications import SEVERAL
from tests.service.integration.conftest import wait_for

NDJSON = {"accept": "application/x-ndjson"}
# A trainer's process that has Serve and not this package.
STRANGER = """
import sys
sys.modules["reward_serve"] = None
import ray
from ray import serve
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
handle = serve.get_deployment_handle("several", "several")
asked = [{"response": "", "reference": sys.argv[2]}]
print([result["score"] for result in handle.score_batch.remote(asked).result(timeout_s=30)])
"""


@pytest.fixture(scope="module")
def several_url(url: str) -> str:
    """The URL of a rule with three replicas, which scores whether it is the one of an id."""

    def known() -> bool:
        serve.get_deployment_handle(SEVERAL, SEVERAL).describe.remote().result(timeout_s=30)
        return len(replica_ids()) == 3

    wait_for("three replicas", known, 90)
    return f"{url}/{SEVERAL}"


def replica_ids() -> tuple[str, ...]:
    """Of the replicas that this process's router knows."""
    return known_replicas(SEVERAL, SEVERAL)


def burst() -> list[dict[str, Any]]:
    """Four groups of two to each replica, whose id is the reference."""
    ids = replica_ids()
    homes: dict[str, list[str]] = {replica: [] for replica in ids}
    for group in map("group {}".format, range(200)):
        homes[first_choice(group_key({"group": group}), ids)].append(group)
    return [
        {"response": "", "reference": replica, "group": group, "id": f"{group} {sample}"}
        for replica, groups in homes.items()
        for group in groups[:4]
        for sample in range(2)
    ]


def ask_replica(replica: str) -> dict[str, Any]:
    """What the replica of an id says of itself."""
    handle = serve.get_deployment_handle(SEVERAL, SEVERAL).options(session_id=replica)
    description: dict[str, Any] = handle.describe.remote().result(timeout_s=30)
    return description


def over_http(url: str, asked: list[dict[str, Any]]) -> list[float | None]:
    with HttpRewardClient(url, timeout_s=30) as client:
        return [result.score for result in client.score_batch(asked)]


def streamed(url: str, asked: list[dict[str, Any]]) -> list[float | None]:
    body = {"requests": asked}
    reply = httpx.post(f"{url}/v1/score/batch", json=body, headers=NDJSON, timeout=60)
    scores = {line["index"]: line["score"] for line in map(json.loads, reply.text.splitlines())}
    return [scores[index] for index in range(len(asked))]


def by_handle(_: str, asked: list[dict[str, Any]]) -> list[float | None]:
    return [result.score for result in RewardClient(SEVERAL, timeout_s=30).score_batch(asked)]


@pytest.mark.parametrize("ask", [over_http, streamed, by_handle])
def test_concurrent_calls_of_one_request_are_answered_in_place(several_url: str, ask: Any) -> None:
    asked = burst()
    wait_for("the router to know them", lambda: ask(several_url, asked) == [1.0] * 24, 30)
    for _ in range(5):
        assert ask(several_url, asked) == [1.0] * 24


def test_a_session_stays_with_its_replica_while_it_lives(several_url: str, cluster: str) -> None:
    ids = replica_ids()
    pids = {replica: ask_replica(replica)["pid"] for replica in ids}
    assert len(set(pids.values())) == 3
    assert {replica: ask_replica(replica)["pid"] for replica in ids for _ in range(3)} == pids
    assert ask_replica("is-gone")["pid"] in pids.values()
    stranger = [sys.executable, "-c", STRANGER, cluster, ids[0]]
    done = subprocess.run(stranger, capture_output=True, text=True, check=False, timeout=90)
    assert done.stdout.strip() in ("[0.0]", "[1.0]"), done.stderr


@pytest.mark.kills
def test_a_killed_replicas_part_is_asked_of_the_others(several_url: str) -> None:
    before, asked = replica_ids(), burst()
    os.kill(ask_replica(before[0])["pid"], signal.SIGKILL)
    with HttpRewardClient(several_url, timeout_s=30) as client:
        results = client.score_batch(asked)  # at once: what was lost is typed, and nothing hangs
        assert {result.status for result in results} <= {Status.OK, Status.ERROR}
        wait_for("another", lambda: len(set(replica_ids()) - {*before}) == 1, 60)
        assert before[0] not in replica_ids()
        assert [result.status for result in client.score_batch(asked)] == [Status.OK] * 24
