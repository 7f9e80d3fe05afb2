"""Reward models of each kind, side by side in one application, by handle and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from ray import serve

from reward_serve import HttpRewardClient, RewardClient, Status
from tests.integration.conftest import Deploy, wait_for
from tests.integration.test_lifecycle import status_of, wait_for_app

APP = "verifiers"
OWN = "tests.rules.own_functions"
HOSTILE = {"response": "A" * 100, "reference": "18", "model": "pattern"}
SMALL: dict[str, Any] = {"kind": "rule", "resources": {"num_cpus": 0.1}}


@pytest.fixture
def apps_url(deploy_app: Deploy, url: str) -> str:
    rules = {
        "strict": {"verifier": "gsm8k_strict_last"},
        "pattern": {"verifier": "regex", "pattern": r"(?:A+)+: (\S+)"},
        "own": {"verifier": "function", "function": f"{OWN}:later"},
    }
    models = [{"name": name, "rule": rule, **SMALL} for name, rule in rules.items()]
    deploy_app(APP, {"models": models})
    wait_for_app(APP)
    return f"{url}/{APP}"


def test_verifiers_of_one_application_are_asked_by_name(apps_url: str) -> None:
    requests: list[dict[str, Any]] = [
        {"response": "#### 18", "reference": "18", "model": "strict"},
        {"response": "The answer is 18.", "reference": "18", "model": "strict"},
        {"response": "A: 18.0", "reference": "18", "model": "pattern"},
        {"response": "x", "model": "own", "metadata": {"points": 0.25}},
        {"response": "x", "model": "own"},
        {"response": "#### 18", "model": "strict"},
    ]
    verdicts = [
        (Status.OK, 1.0),
        (Status.OK, 0.0),
        (Status.OK, 1.0),
        (Status.OK, 0.25),
        (Status.ERROR, None),
        (Status.INVALID, None),
    ]
    with HttpRewardClient(apps_url, timeout_s=60) as client:
        over_http = client.score_batch(requests)
    assert [(result.status, result.score) for result in over_http] == verdicts
    assert "TypeError" in (over_http[4].reason or "")
    for request, expected in zip(requests, verdicts, strict=True):
        result = RewardClient(APP, model=request["model"], timeout_s=60).score(request)
        assert (result.status, result.score) == expected


def test_a_hostile_response_leaves_the_replica_scoring(apps_url: str) -> None:
    with HttpRewardClient(apps_url, timeout_s=60) as client:
        hostile = client.score(HOSTILE)
        assert (hostile.status, hostile.score) == (Status.UNPARSEABLE, None)
        assert (hostile.details or {})["rule"] == "too_slow"
        good = {**HOSTILE, "response": "A: 18"}
        assert client.score(good).score == 1.0


def test_a_missing_function_fails_the_deployment_with_the_reason(
    deploy_app: Deploy,
) -> None:
    rule = {"verifier": "function", "function": f"{OWN}:no_such"}
    deploy_app("missing", {"models": [{"name": "own", "rule": rule, **SMALL}]})
    wait_for("the deployment to fail", lambda: status_of("missing") == "DEPLOY_FAILED", 60)
    message = serve.status().applications["missing"].deployments["own"].message
    assert f"rule.function: '{OWN}:no_such' cannot be imported" in message


def test_a_graded_judge_scores_the_expected_value_of_its_grades(http: HttpRewardClient) -> None:
    request = {"response": "9 * 2 = 18\n#### 18", "reference": "#### 18", "template": "graded"}
    result = http.score({**request, "options": {"cache": False}})
    assert (result.status, result.source, result.template) == (Status.OK, "judge", "graded")
    probabilities = result.probabilities or {}
    assert set(probabilities) == {"0", "1", "2"}
    expected = 0.5 * probabilities["1"] + probabilities["2"]
    assert result.score == pytest.approx(expected)


def test_the_requested_samples_are_written_and_their_tokens_add_up(http: HttpRewardClient) -> None:
    options = {"mode": "generate", "samples": 3, "temperature": 1.5, "max_tokens": 12}
    request = {"response": "It is eighteen", "reference": "18", "template": "similarity"}
    result = http.score({**request, "options": options})
    assert (result.details or {})["samples"] == [None, None, None]  # 12 tokens hold no verdict
    assert result.score is None
    assert "3 of 3 samples: " in (result.reason or "")
    assert 12 < result.usage.completion_tokens <= 36
    assert result.usage.cached_tokens > 0  # they share their prompt
