"""What verl and TRL get for programs: a reward, and none where the sandbox has failed."""

import asyncio
import json
from typing import Any

import pytest

from reward_serve.client import ScoringError
from reward_serve.config.models import RuleModel
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve_trl import judge_reward
from reward_serve_verl import compute_score
from tests.fake_service import FakeService, Reply, dead_url

TESTS = json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]})
RIGHT, WRONG = "```python\nprint(int(input()) + 1)\n```", "```python\nprint(2.5)\n```"


def served(sandbox_url: str | None) -> FakeService:
    code = {"sandbox_url": sandbox_url}
    rule = {"verifier": "code", "code": code}
    model = RuleModel.model_validate({"name": "rule", "kind": "rule", "rule": rule})
    return FakeService(RuleRewardModel(model))


def by_verl(response: str, url: str) -> Any:
    settings: dict[str, Any] = {"url": url, "max_attempts": 1, "on_failure": "none"}
    return asyncio.run(compute_score("apps", response, TESTS, {"timeout": 20}, **settings))["score"]


def by_trl(response: str, url: str) -> Any:
    reward = judge_reward(url=url, max_attempts=1, timeout_s=20)
    return asyncio.run(reward(prompts=["p"], completions=[response], answer=[TESTS]))[0]


def test_programs_are_rewarded() -> None:
    with served(None) as service:
        assert [by_verl(response, service.url) for response in (RIGHT, WRONG)] == [1.0, 0.0]
        assert [by_trl(response, service.url) for response in (RIGHT, WRONG)] == [1.0, 0.0]


FAULTS = {
    "gone": None,
    "an error": Reply({"detail": "Internal Server Error"}, 500),
    "too many requests": Reply({}, 429),
    "a full disk": Reply({"status": "SandboxError", "message": "[Errno 28] No space left"}),
    "a page": Reply(b"<html>"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("response", [RIGHT, WRONG], ids=["right", "wrong"])
def test_a_sandbox_that_fails_rewards_nothing(fault: str, response: str) -> None:
    reply = FAULTS[fault]
    with FakeService() as sandbox:
        sandbox.replies["/run_code"] = reply or Reply({})
        with served(f"{sandbox.url if reply else dead_url()}/run_code") as service:
            with pytest.raises(ScoringError, match=r"no verdict: (error|overloaded|timeout)"):
                by_verl(response, service.url)
            assert by_trl(response, service.url) is None
