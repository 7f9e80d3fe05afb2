"""Several applications behind one gateway, and composites of their models."""

from typing import Any

import httpx
import pytest
from ray import serve

from deployments.local import APP
from reward_serve import HttpRewardClient, RewardClient, Status
from reward_serve.app import build_gateway
from reward_serve.explanation import Explanation
from tests.service.integration.applications import GATEWAY, RULES, rule
from tests.service.integration.conftest import Deploy

RIGHT = {"response": "Nine eggs at two dollars make eighteen. #### 18", "reference": "18"}
WRONG = {**RIGHT, "response": "Nine eggs at two dollars make seventeen. #### 17"}
PROSE = {"response": "Nine eggs at two dollars make eighteen.", "reference": "18"}
CHAT: dict[str, Any] = {
    "model": "Qwen/Qwen3-32B",
    "messages": [{"role": "user", "content": "Problem: 9 + 9? Answer: 18. REWARD: <score>"}],
    "temperature": 0.7,
    "top_p": 0.8,
    "max_tokens": 8,
    "stream": False,
    "chat_template_kwargs": {"enable_thinking": False},
}


def test_models_of_several_applications_answer_behind_one_gateway(gateway: str) -> None:
    asked = [
        PROSE,
        {**RIGHT, "model": "rule"},
        {**WRONG, "model": "rule"},
        {"response": "#### 17", "reference": "18", "model": "several"},
        {**RIGHT, "model": "judge"},
        {**PROSE, "model": "Qwen/Qwen3-32B"},
    ]
    with HttpRewardClient(gateway, timeout_s=60) as client:
        described = {model["name"]: model["kind"] for model in client.models()}
        assert described == {"judge": "judge", "rule": "rule", "several": "rule"}
        for way in (client, RewardClient(GATEWAY, timeout_s=60)):
            results = way.score_batch(asked)
            assert [result.status for result in results] == [Status.OK] * 6
            names = ["judge", "rule", "rule", "several", "judge", "judge"]
            assert [result.model for result in results] == names
            assert [result.score for result in results] == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]


def test_a_judges_model_answers_openais_clients(gateway: str) -> None:
    chat = httpx.post(f"{gateway}/v1/chat/completions", json=CHAT, timeout=60)
    assert chat.status_code == 200
    assert chat.json()["choices"][0]["message"]["content"].strip()
    assert 0 < chat.json()["usage"]["completion_tokens"] <= 8

    verdict = {
        "type": "json_schema",
        "json_schema": {"name": "v", "schema": {"enum": ["yes", "no"]}},
    }
    asked = {**CHAT, "n": 2, "temperature": 1.0, "seed": 1, "response_format": verdict}
    whole = httpx.post(f"{gateway}/v1/chat/completions", json=asked, timeout=60).json()
    assert [choice["index"] for choice in whole["choices"]] == [0, 1]
    texts = {choice["message"]["content"] for choice in whole["choices"]}
    assert texts <= {'"yes"', '"no"'}
    assert whole["model"] == CHAT["model"]
    for change, why in (
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tool_call_parser"),
        ({"temperature": -1.0}, "temperature: Input should be greater"),
        ({"messages": [{"role": "user", "content": "x " * 3000}]}, "maximum context length"),
    ):
        refused = httpx.post(f"{gateway}/v1/chat/completions", json={**CHAT, **change}, timeout=60)
        assert refused.status_code == 400
        assert why in refused.json()["error"]["message"]


def test_a_completion_that_is_late_is_aborted_in_the_engine(gateway: str) -> None:
    asked = {**CHAT, "max_tokens": 512, "timeout_s": 0.3, "temperature": 0.0}
    late = httpx.post(f"{gateway}/v1/chat/completions", json=asked, timeout=60)
    assert (late.status_code, late.json()["error"]["type"]) == (504, "timeout_error")


def test_a_composite_asks_models_of_several_applications(rule_url: str) -> None:
    boxed: dict[str, Any] = {
        "response": r"It is \boxed{18}",
        "reference": "18",
        "model": "composite",
    }
    asked = [boxed, {**boxed, "response": r"It is \boxed{17}"}, {**boxed, "reference": None}]
    with HttpRewardClient(rule_url, timeout_s=60) as client:
        for way in (client, RewardClient(RULES, timeout_s=60)):
            results = way.score_batch(asked)
            assert [result.score for result in results] == [1.0, 0.0, None]
            assert results[2].status is Status.INVALID
            details: Any = results[0].details
            assert details["disagreement"] == pytest.approx(1 / 3)  # exactly, it is no reference
            assert set(details["members"]) == {f"{APP}/judge", "rule", "exact"}
        explained = client.explain(boxed).members or {}
    assert isinstance(explained["exact"], Explanation)
    scores = {name: explanation.result.score for name, explanation in explained.items()}
    assert scores == {f"{APP}/judge": 1.0, "rule": 1.0, "exact": 0.0}


def test_a_cascade_asks_the_next_where_the_first_has_no_rule_or_verdict(rule_url: str) -> None:
    proven = {"response": "9 * 2 = 18\n#### 18", "reference": "18"}
    unsure = {"response": "It comes to eighteen.", "reference": "18"}
    unwritten = {**unsure, "template": "similarity", "options": {"max_tokens": 1}}
    with HttpRewardClient(rule_url, timeout_s=60, max_attempts=1) as client:
        results = client.score_batch(
            [{**request, "model": "cascade"} for request in (proven, unsure, unwritten)]
        )
    judge = f"{APP}/judge"
    details: list[Any] = [result.details for result in results]
    assert [result.score for result in results] == [1.0, 0.0, 0.0]
    assert [detail["decided_by"] for detail in details] == [judge, "exact", "exact"]
    assert details[1]["members"][judge]["status"] == "ok"
    failed = details[2]["members"][judge]
    assert (failed["status"], failed["score"]) == ("truncated", None)


@pytest.mark.slow
def test_an_application_may_come_after_its_gateway(deploy_app: Deploy, url: str) -> None:
    models = [{"name": "late", "application": "late"}]
    serve.run_many([serve.RunTarget(build_gateway({"models": models}), "early", "/early")])
    try:
        with HttpRewardClient(f"{url}/early") as first:  # its circuit opens while "late" starts
            assert not first.is_ready()
            absent = first.score({**RIGHT, "timeout_s": 1.0})
            assert (absent.status, absent.score) == (Status.TIMEOUT, None)
        with HttpRewardClient(f"{url}/early", timeout_s=60) as client:
            deploy_app("late", {"models": [rule("late", "gsm8k")], "server": {"explain": False}})
            assert client.score(RIGHT).score == 1.0  # it waits
            refused = client.explain(RIGHT).result
            assert refused.status is Status.INVALID
            assert "server.explain: true" in (refused.reason or "")
    finally:
        serve.delete("early", _blocking=False)
