"""Groups through a real Serve application with two replicas; only the model's endpoint is fake."""

from __future__ import annotations

import json
import math
import random
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ray import serve

from reward_serve import HttpRewardClient, RewardClient, ScoreResult
from reward_serve.app import build_app
from reward_serve.client import Client
from reward_serve.schema import Status
from tests.service.integration.conftest import wait_for

APP = "groups"
SIZE = 8
TIMEOUT_S = 20.0
COHORTS, AT_ONCE = 1_000, 25


class _Endpoint(BaseHTTPRequestHandler):
    """Prefers the response with the higher number, and a little the one that is shown first."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        shown = re.findall(r"<response>\n.*?(\d+)\n</response>", body["messages"][-1]["content"])
        first, second = map(int, shown or (1, 0))
        p = 1 / (1 + math.exp(-(first - second) - 0.5))
        tokens = [{"token": t, "logprob": math.log(x)} for t, x in (("1", p), ("2", 1 - p))]
        choice = {
            "index": 0,
            "finish_reason": "length",
            "message": {"role": "assistant", "content": "1"},
            "logprobs": {"content": [{**tokens[0], "top_logprobs": tokens}]},
        }
        usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        reply: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
        data = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024  # the default of five refuses some of many calls at once


def model(port: int) -> Mapping[str, Any]:
    remote = {"model": "m", "api_key_env": None, "base_url": f"http://127.0.0.1:{port}/v1"}
    return {
        "name": "groups",
        "kind": "remote",
        "remote": remote,
        "group": {},
        "resources": {"num_cpus": 0.1},
        "autoscaling": {"min_replicas": 2, "max_replicas": 2},
    }


@pytest.fixture(scope="module")
def groups_url(url: str) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        app = build_app({"models": [model(server.server_port)]})
        serve.run_many([serve.RunTarget(app, APP, f"/{APP}")])
        yield f"{url}/{APP}"
    finally:
        serve.delete(APP)
        server.shutdown()
        server.server_close()


def clients(url: str) -> list[Client]:
    """By HTTP and by handle, each sending its requests one by one."""
    settings: dict[str, Any] = {"timeout_s": TIMEOUT_S, "max_batch": 1, "max_attempts": 1}
    http = HttpRewardClient(url, **settings)
    wait_for("the judge of groups", http.is_ready, 120)
    return [http, RewardClient(APP, **settings)]


def check_a_group_over_http_and_by_handle(url: str) -> None:
    for client in clients(url):
        found = client.score_group({"question": "?", "responses": [f"r {n}" for n in (2, 0, 1)]})
        best, worst, middle = (one.score or 0.0 for one in found.results)
        assert best > middle > worst


def check_cohorts_whose_members_are_lost_late_and_doubled(url: str, groups: range) -> None:
    chance = random.Random(f"48/{groups.start}")
    both = clients(url)

    def member(group: int, number: int, fate: float) -> ScoreResult | None:
        if fate < 0.05:
            return None
        time.sleep(0.1 * fate if fate < 0.95 else 0.7 * TIMEOUT_S)
        asked = {"question": "?", "response": f"r {number}", "id": f"{group}-{number}"}
        began = time.monotonic()
        result = both[number % 2].score({**asked, "group": f"g{group}", "group_size": SIZE})
        assert time.monotonic() - began < TIMEOUT_S
        return result

    jobs = [(g, n, chance.random()) for g in groups for n in (*range(SIZE), 0)]
    with ThreadPoolExecutor(len(jobs)) as threads:
        results = list(threads.map(lambda job: member(*job), jobs))
    found: dict[int, dict[int, float]] = {}
    for (group, number, fate), result in zip(jobs, results, strict=True):
        if result is not None and result.score is not None:
            found.setdefault(group, {})[number] = result.score
        elif result is not None:
            assert fate >= 0.95 and result.status is Status.TIMEOUT, result
    assert len(found) == len(groups)
    for scores in found.values():
        numbers = sorted(scores)
        assert scores[numbers[0]] < scores[numbers[-1]]


@pytest.mark.timeout(240)
def test_a_group_is_judged_over_http_and_by_handle(groups_url: str) -> None:
    check_a_group_over_http_and_by_handle(groups_url)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_cohort_hangs_and_one_replica_receives_it_whole(groups_url: str) -> None:
    for start in range(0, COHORTS, AT_ONCE):
        groups = range(start, start + AT_ONCE)
        check_cohorts_whose_members_are_lost_late_and_doubled(groups_url, groups)
