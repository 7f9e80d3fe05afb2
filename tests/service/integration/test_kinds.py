"""Reward models of each kind, side by side in one application, by handle and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from ray import serve

from reward_serve import HttpRewardClient, RewardClient, Status
from tests.service.integration.applications import MISSING, OWN, RULES
from tests.service.integration.conftest import status_of

HOSTILE = {"response": "A" * 100, "reference": "18", "model": "pattern"}


def test_verifiers_of_one_application_are_asked_by_name(rule_url: str) -> None:
    requests: list[dict[str, Any]] = [
        {"response": "18", "reference": "18", "model": "exact"},
        {"response": "The answer is 18.", "reference": "18", "model": "exact"},
        {"response": "A: 18.0", "reference": "18", "model": "pattern"},
        {"response": "x", "model": "own", "metadata": {"points": 0.25}},
        {"response": "x", "model": "own"},
        {"response": "18", "model": "exact"},
    ]
    verdicts = [
        (Status.OK, 1.0),
        (Status.OK, 0.0),
        (Status.OK, 1.0),
        (Status.OK, 0.25),
        (Status.ERROR, None),
        (Status.INVALID, None),
    ]
    with HttpRewardClient(rule_url, max_attempts=1) as client:
        over_http = client.score_batch(requests)
    assert [(result.status, result.score) for result in over_http] == verdicts
    assert "TypeError" in (over_http[4].reason or "")
    for request, expected in zip(requests, verdicts, strict=True):
        result = RewardClient(RULES, model=request["model"], max_attempts=1).score(request)
        assert (result.status, result.score) == expected


def test_a_hostile_response_leaves_the_replica_scoring(rule_url: str) -> None:
    with HttpRewardClient(rule_url, max_attempts=1) as client:
        hostile = client.score(HOSTILE)
        assert (hostile.status, hostile.score) == (Status.UNPARSEABLE, None)
        assert (hostile.details or {})["rule"] == "too_slow"
        good = {**HOSTILE, "response": "A: 18"}
        assert client.score(good).score == 1.0


def test_a_replica_that_cannot_start_fails_the_deployment_with_the_reason(url: str) -> None:
    assert status_of(MISSING) == "DEPLOY_FAILED"
    message = serve.status().applications[MISSING].deployments["own"].message
    assert f"rule.function: '{OWN}:no_such' cannot be imported" in message


def test_a_graded_judge_scores_the_expected_value_of_its_grades(http: HttpRewardClient) -> None:
    request = {"response": "9 * 2 = 18\n#### 18", "reference": "#### 18", "template": "graded"}
    result = http.score({**request, "options": {"cache": False}})
    assert (result.status, result.source, result.template) == (Status.OK, "judge", "graded")
    probabilities = result.probabilities or {}
    assert set(probabilities) == {"0", "1", "2"}
    expected = 0.5 * probabilities["1"] + probabilities["2"]
    assert result.score == pytest.approx(expected)
