"""Endpoints that are down, refuse the key or lack the model, as reported by who deployed one first.

The stand-in listens on a real port, since a refused connection is what was reported.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from reward_serve import HttpRewardClient
from reward_serve.client.check import examine_service
from reward_serve.config.models import CompositeModel, JudgeModel
from reward_serve.engines import openai
from reward_serve.engines.openai import OpenAIEngine
from reward_serve.explanation import Explanation
from reward_serve.replica.admission import Admission
from reward_serve.replica.deployment import RewardReplica
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.composite import Composite
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import DOWN_S, ScoreRequest, ScoreResult, Status, seconds_in
from tests.fake_ingress import BEARER, KEYS, FakeHandle, served
from tests.fake_service import FakeService, Reply, free_port

KEY = "sk-0123456789abcdef"
ASKED = {"response": "Eighteen.", "reference": "18"}
BY_RULE = {"response": "#### 18", "reference": "18"}


class _Handler(BaseHTTPRequestHandler):
    """An endpoint that has the model ``m`` and knows ``KEY``; it moderates, and counts calls."""

    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        code, reply = 200, _verdict()
        if self.server.code is not None:
            code, reply = self.server.code, _error("elsewhere")
        elif self.headers["authorization"] != f"Bearer {KEY}":
            code, reply = 401, _error("Incorrect API key provided")
        elif body["model"] != "m":
            code, reply = 404, _error(f"The model {body['model']} does not exist")
        elif "flagged" in json.dumps(body["messages"]):
            code, reply = 403, _error("Your input was flagged")
        data = json.dumps(reply).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # with 5, the kernel drops some of 64 connections at once for seconds
    code: int | None = None

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.asked: list[Any] = []


def _verdict() -> dict[str, Any]:
    message = {"role": "assistant", "content": "REWARD: 1"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": None}}


@contextmanager
def listening(port: int) -> Iterator[_Server]:
    with _Server(port) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setattr(openai, "_PROBE_EVERY_S", 0.1)
    return free_port()


def remote(port: int, model: str = "m", **settings: Any) -> JudgeModel:
    judge = {"template": "similarity", "mode": "generate", "rules_first": False}
    at = {"model": model, "base_url": f"http://127.0.0.1:{port}/v1", "api_key_env": "JUDGE_KEY"}
    fields = {"name": "judge", "kind": "remote", "remote": at, "judge": judge}
    return JudgeModel.model_validate({**fields, **settings})


def judge_of(config: JudgeModel) -> Judge:
    return Judge(config, OpenAIEngine(config))


def scorer_of(config: JudgeModel) -> Scorer:
    return Scorer("judge", judge_of(config), Admission(8, 64))


def samples(step: int, number: int = 64) -> list[dict[str, Any]]:
    return [{**ASKED, "response": f"Step {step}, sample {n}"} for n in range(number)]


def test_three_steps_against_an_endpoint_that_is_down_cost_a_deadline_in_all(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    config = remote(port)
    with FakeService(judge_of(config)) as service:
        client = HttpRewardClient(service.url, timeout_s=6)
        with listening(port):
            assert {result.score for result in client.score_batch(samples(0))} == {1.0}
        took, steps = [], []
        for step in (1, 2, 3):
            began = time.monotonic()
            steps.append(client.score_batch(samples(step)))
            took.append(time.monotonic() - began)
        with listening(port):
            began = time.monotonic()
            while client.score({**ASKED, "response": str(time.time())}).score is None:
                assert time.monotonic() - began < 10
                time.sleep(0.05)
        client.close()
    assert 1 < sum(took) < 12 and took[2] < 3  # not 3 deadlines, 18 s; the margin is for CI
    assert {result.status for result in steps[-1]} == {Status.ERROR}
    reason = steps[-1][0].reason or ""
    for part in (f"http://127.0.0.1:{port}/v1/", "model m", "key JUDGE_KEY", "remote.base_url"):
        assert part in reason
    logged = [r.getMessage() for r in caplog.records if r.name == "ray.serve"]
    assert ["probing" in line for line in logged] == [True, False]
    assert "answers again" in logged[1]


@pytest.mark.parametrize(
    ("model", "key", "remedy"),
    [("m", "sk-wrong", "to a key that it accepts"), ("gpt", KEY, "to a model that it has")],
)
async def test_a_wrong_key_or_model_is_final_at_once_and_not_asked_for_again(
    port: int, model: str, key: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", key)
    monkeypatch.setattr(openai, "_PROBE_EVERY_S", 60)
    with listening(port) as endpoint:
        scorer = scorer_of(remote(port, model))
        results = await scorer.score_batch(samples(0, 8)) + await scorer.score_batch(samples(1))
    assert {result["status"] for result in results} == {"invalid"}
    assert len(endpoint.asked) <= 8 + 1
    assert remedy in results[-1]["reason"] and f"model {model}, key JUDGE_KEY" in str(results[-1])
    assert key not in str(results)


async def test_what_the_endpoint_refuses_of_one_request_stops_no_other(port: int) -> None:
    with listening(port) as endpoint:
        scorer = scorer_of(remote(port))
        flagged, right = await scorer.score_batch([{**ASKED, "response": "flagged"}, ASKED])
        endpoint.code = 404  # a proxy whose server is being replaced
        later = await scorer.score({**ASKED, "response": "Later."})
    assert (flagged["status"], flagged["details"]) == ("invalid", None)
    assert right["score"] == 1.0
    assert later["status"] == "error"  # for it has answered


async def test_while_the_endpoint_is_down_rules_decide_and_the_rest_say_since(port: int) -> None:
    with_rules = {"template": "final_answer", "mode": "generate", "rules_first": True}
    scorer = scorer_of(remote(port, judge=with_rules, group={}))
    assert (await scorer.score(ASKED))["status"] == "error"
    await asyncio.sleep(0.2)
    assert (await scorer.score(BY_RULE))["score"] == 1.0
    pair = {"question": "9 + 9?", "responses": ["18", "19"]}
    group, down = await scorer.score_group(pair), await scorer.score(ASKED)
    members = {"members": [{"model": "judge"}, {"model": "length"}], "quorum": 2}
    config = CompositeModel(name="both", kind="composite", composite=members)

    async def of(result: Any) -> Explanation:
        return Explanation(result=ScoreResult.model_validate(result))

    asks = [lambda *_: of(down), lambda *_: of({"status": "ok", "score": 1.0})]
    both = await Composite(config, asks).score(ScoreRequest(response="18"))
    for details in (group["details"], group["results"][0]["details"], both.details):
        assert seconds_in(details, DOWN_S) >= 0.2


async def test_a_replica_starts_while_its_endpoint_is_down_and_is_not_ready(port: int) -> None:
    replica = RewardReplica.__new__(RewardReplica)
    began = time.monotonic()
    await replica.__init__(remote(port).model_dump())  # type: ignore[misc]
    assert time.monotonic() - began < 5
    assert f"http://127.0.0.1:{port}/v1/" in (await replica.describe())["outage"]
    with listening(port):
        await asyncio.sleep(0.5)
        assert (await replica.describe())["outage"] is None
        assert (await replica.score(ASKED))["score"] == 1.0


WHY = "the endpoint http://judge.example/v1/ (model m, key JUDGE_KEY): refused; start it"


def test_ready_models_and_check_name_the_lost_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async def described(self: FakeHandle) -> Any:
        return {"name": self.deployment_name, "outage": WHY}

    monkeypatch.setattr(FakeHandle, "_describe", described)
    ready = served().get("/ready")
    assert (ready.status_code, ready.json()["detail"]) == (503, f"rule: {WHY}")
    (model,) = served().get("/v1/models").json()["models"]
    assert (model["ready"], model["outage"]) == (False, WHY)
    # Without a key, anyone may ask /ready.
    assert "judge.example" not in served(KEYS).get("/ready").text
    assert "judge.example" in served(KEYS).get("/v1/models", headers=BEARER).text
    assert served().get("/ready?model=none").status_code == 404

    models = [{"name": "rule", "ready": True}, {"name": "judge", "ready": False, "outage": WHY}]
    with FakeService() as service:
        service.replies["/v1/models"] = Reply({"models": models})
        problems = [finding for finding in examine_service(service.url) if finding.is_problem]
        assert [(finding.what, finding.remedy) for finding in problems] == [("model judge", WHY)]
        assert not any(finding.is_problem for finding in examine_service(service.url, model="rule"))
        (unknown,) = [e for e in examine_service(service.url, model="jugde") if e.is_problem]
        assert "did you mean 'judge'?" in str(unknown)
