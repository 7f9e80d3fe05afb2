"""What no retry can change ends a run; the rule replaces only a comparison's verdict."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from reward_serve.client import ScoringError, connect
from reward_serve.client.rows import RefusedRowError
from reward_serve.config.models import RuleModel
from reward_serve.http.ingress import _answered
from reward_serve.reward_models.rule import RuleRewardModel
from reward_serve.schema import Status, failure
from reward_serve_skyrl import GSM8kJudgeEnv
from reward_serve_slime import score
from reward_serve_trl import judge_reward
from reward_serve_verl import compute_score
from reward_serve_verl import llm_judge_remote as drop_in
from reward_serve_verl.scoring import check_first_rows
from tests.fake_service import FakeService, Reply

ROW = {"reward_model": {"ground_truth": "18"}, "extra_info": {}}
RIGHT = "#### 18"


def by_skyrl(url: str, **settings: Any) -> Any:
    extras = {"reward_spec": {"ground_truth": "18"}}
    return GSM8kJudgeEnv(env_config={"url": url, **settings}, extras=extras).step(RIGHT)["reward"]


def by_trl(url: str, **settings: Any) -> Any:
    reward = judge_reward(url=url, **settings)
    return asyncio.run(reward(prompts=["?"], completions=[RIGHT], answer=["18"]))


def by_verl(url: str, **settings: Any) -> Any:
    return asyncio.run(compute_score("gsm8k", RIGHT, "18", {}, url=url, **settings))


def by_verls_first_rows(url: str, **settings: Any) -> Any:
    check_first_rows([ROW], {"url": url, **settings})


def by_verls_drop_in(url: str, model: str | None = None, **_: Any) -> Any:
    info = {"server_url": url, "model_name": model}
    return drop_in.compute_score("llm_judge_remote_gsm8k", RIGHT, "18", info)


def by_slime(url: str, **_: Any) -> Any:
    sample = SimpleNamespace(prompt="?", response=RIGHT, label="18")
    return asyncio.run(score(None, sample))


TRAINERS = [by_skyrl, by_trl, by_verl, by_verls_first_rows, by_verls_drop_in, by_slime]
WRONG_KEY = Reply({"detail": "Authorization: unknown API key"}, 401)


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("on_failure", [None, "rule", 0.0, "none"])
def test_a_wrong_key_ends_a_run_whatever_on_failure_says_and_also_in_its_midst(
    service: FakeService,
    monkeypatch: pytest.MonkeyPatch,
    trainer: Callable[..., Any],
    on_failure: Any,
) -> None:
    monkeypatch.setenv("REWARD_SERVE_URL", service.url)
    settings = {} if on_failure is None else {"on_failure": on_failure}
    trainer(service.url, **settings)
    service.replies["/v1/score/batch"] = WRONG_KEY
    with pytest.raises((RefusedRowError, ScoringError), match=r"HTTP 401.*set REWARD_SERVE_API"):
        trainer(service.url, **settings)


@pytest.mark.parametrize("trainer", TRAINERS[:-1])
@pytest.mark.parametrize("on_failure", [None, "rule", 0.0])
def test_a_models_misspelt_name_ends_a_run(
    service: FakeService, trainer: Callable[..., Any], on_failure: Any
) -> None:
    settings = {"model": "jugde"} | ({} if on_failure is None else {"on_failure": on_failure})
    with pytest.raises((RefusedRowError, ScoringError), match="model: no model is named 'jugde'"):
        trainer(service.url, **settings)


@pytest.mark.parametrize("on_failure", ["rule", "lexical", None])
def test_a_refused_request_has_no_verdict_of_a_rule(service: FakeService, on_failure: Any) -> None:
    client = connect(url=service.url, on_failure=on_failure)
    asked = {"response": RIGHT, "reference": "18"}
    results = client.score_batch([asked, {**asked, "options": {"mode": "guess"}}])
    assert [result.status for result in results] == [Status.OK, Status.INVALID]


OTHERS: dict[str, dict[str, Any]] = {
    "rubric": {"source": "judge", "components": {"brief": {"score": 0.5, "status": "ok"}}},
    "classifier": {"source": "classifier"},
    "composite": {"source": "composite"},
    "function": {"source": "rule", "fingerprint": "verifier=function;function=own:score"},
    "tool_call": {"source": "rule", "fingerprint": "verifier=tool_call;version=9;ordered=False"},
    "json_schema": {"source": "rule", "fingerprint": "verifier=json_schema;version=9"},
    "a later kind": {"source": "keyword"},
}
FAILED = {"status": "error", "reason": "down"}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_rule_is_no_reward_on_another_scale(service: FakeService, kind: str) -> None:
    asked = {"response": RIGHT, "reference": "18"}
    verdict = {"status": "ok", "score": 0.5, "model": "style", **OTHERS[kind]}
    service.replies["/v1/score/batch"] = Reply({"results": [verdict]})
    with pytest.raises(
        ScoringError, match=r"on_failure=rule: 'style' scores on another scale; set none"
    ):
        connect(url=service.url, on_failure="rule").score(asked)
    default = connect(url=service.url, on_failure=None, max_attempts=1)
    assert default.score(asked).score == 0.5
    service.replies["/v1/score/batch"] = Reply({"results": [FAILED]})
    assert default.score(asked).score is None


def test_by_default_a_rule_stands_for_a_comparison(service: FakeService) -> None:
    asked = {"response": RIGHT, "reference": "18"}
    client = connect(url=service.url, on_failure=None, max_attempts=1)
    client.score(asked)
    service.replies["/v1/score/batch"] = Reply({"results": [FAILED]})
    assert client.score(asked).source == "fallback"


def test_a_rule_does_not_stand_for_a_place_in_a_group(service: FakeService) -> None:
    client = connect(url=service.url, on_failure="rule")
    with pytest.raises(ScoringError, match=r"on_failure=rule: .*another scale"):
        client.score_group({"responses": ["a", "aa"], "reference": "18"})


def test_a_single_score_that_failed_is_502_with_the_whole_result() -> None:
    failed = failure(Status.ERROR, "the engine died", model="judge").model_dump(mode="json")
    answer = _answered(failed, failed)
    assert answer.status_code == 502
    assert json.loads(bytes(answer.body)) == {"detail": "the engine died", **failed}


async def test_a_functions_bug_is_told_once_and_not_retried() -> None:
    rule = {"verifier": "function", "function": "tests.own_functions:scripted"}
    config = RuleModel.model_validate({"name": "own", "kind": "rule", "rule": rule})
    with FakeService(model=RuleRewardModel(config)) as service:
        client = connect(url=service.url, on_failure="none", timeout_s=30)
        result = await client.ascore({"response": "raise"})
    assert result.status is Status.INVALID
    assert (
        result.reason == "rule.function tests.own_functions:scripted: KeyError: 'points' (line 26)"
    )
    assert len(service.calls) == 1
