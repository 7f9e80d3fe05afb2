"""Groups through a real Serve application with two replicas; only the model's endpoint is fake."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator
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
GROUPS, SIZE = 20, 8


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


@pytest.fixture(scope="module")
def clients(url: str) -> Iterator[list[Client]]:
    """By HTTP and by handle, each sending its requests one by one."""
    server = _Server(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}/v1"
    model = {
        "name": "groups",
        "kind": "remote",
        "remote": {"model": "m", "api_key_env": None, "base_url": endpoint},
        "group": {},
        "resources": {"num_cpus": 0.1},
        "autoscaling": {"min_replicas": 2, "max_replicas": 2},
    }
    settings: dict[str, Any] = {"timeout_s": 20.0, "max_batch": 1, "max_attempts": 1}
    http = HttpRewardClient(f"{url}/{APP}", **settings)
    try:
        serve.run_many([serve.RunTarget(build_app({"models": [model]}), APP, f"/{APP}")])
        wait_for("the judge of groups", http.is_ready, 120)
        yield [http, RewardClient(APP, **settings)]
    finally:
        serve.delete(APP)
        server.shutdown()
        server.server_close()


@pytest.mark.timeout(240)
def test_a_group_is_judged_over_http_and_by_handle(clients: list[Client]) -> None:
    for client in clients:
        found = client.score_group({"question": "?", "responses": [f"r {n}" for n in (2, 0, 1)]})
        best, worst, middle = (one.score or 0.0 for one in found.results)
        assert best > middle > worst
        assert found.details is not None and found.details["cycles"] == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_one_replica_receives_each_cohort_whole_and_a_lost_member_ends_none(
    clients: list[Client],
) -> None:
    def member(place: tuple[int, int]) -> ScoreResult:
        group, number = place
        asked = {"question": "?", "response": f"r {number}", "group": f"g{group}"}
        return clients[number % 2].score({**asked, "group_size": SIZE})

    # Of every fourth group a member is lost.
    places = [(g, n) for g in range(GROUPS) for n in range(SIZE if g % 4 else SIZE - 1)]
    with ThreadPoolExecutor(len(places)) as threads:
        results = dict(zip(places, threads.map(member, places), strict=True))
    assert {result.status for result in results.values()} == {Status.OK}
    for group in range(GROUPS):
        scores = [result.score for (g, _), result in results.items() if g == group]
        assert scores == sorted(scores, key=lambda score: score or 0.0)
