import math
from pathlib import Path
from typing import Any

import pytest
import skyrl_gym

from reward_serve.client import connect
from reward_serve.client.rows import REFUSED_SAMPLES, RefusedRowError
from reward_serve_skyrl import GSM8kJudgeEnv, register_envs
from tests.fake_service import FakeService, Reply, dead_url

RIGHT, WRONG, UNDECIDED = "#### 18", "#### 17", "18 or 17, who knows?"


def row(truth: Any = "18") -> dict[str, Any]:
    """The columns of a prepared data set's row."""
    return {
        "reward_spec": {"method": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": 7, "question": "How many eggs?"},
    }


def judge(url: str, **settings: Any) -> GSM8kJudgeEnv:
    return GSM8kJudgeEnv(env_config={"url": url, **settings}, extras=row())


def test_the_service_decides_in_one_turn(service: FakeService) -> None:
    register_envs()
    register_envs()
    for response, reward in ((RIGHT, 1.0), (WRONG, 0.0)):
        env = skyrl_gym.make("gsm8k_judge", env_config={"url": service.url}, extras=row())
        env.init([])
        step = env.step(response)

        assert (step["reward"], step["done"], step["observations"]) == (reward, True, [])
        metrics = env.get_metrics()
        assert (metrics["judge_ok"], metrics["judge_fallback"]) == (1.0, 0.0)
        assert (metrics["judge_undecided"], metrics["judge_wall_ms"] > 0) == (0.0, True)
        assert all(type(value) is float for value in metrics.values())
    (request,) = service.calls[0].body["requests"]
    assert (request["question"], request["group"]) == ("How many eggs?", "train/7")
    counts = connect(url=service.url, on_failure=None).counters.snapshot()
    assert (counts["asked"], counts["ok"]) == (2, 2), "environments share a client"


def test_a_request_has_its_samples_keys_and_the_rows_group_first(service: FakeService) -> None:
    keys = {"run": "a", "step": 3, "sample": "7_0"}
    bare = {"reward_spec": {"ground_truth": "18"}}
    for columns in (row(), {**bare, "data_source": "openai/gsm8k"}):
        extras = {**columns, "judge_metadata": keys, "judge_group": "7"}
        GSM8kJudgeEnv({"url": service.url}, extras).step(RIGHT)

    asked = [call.body["requests"][0] for call in service.calls]
    of_row = {"data_source": "openai/gsm8k"}
    assert [request["metadata"] for request in asked] == [keys, {**of_row, **keys}]
    assert [request["group"] for request in asked] == ["train/7", "7"]


def test_a_critique_is_in_the_metrics_that_ask_and_in_no_mean(service: FakeService) -> None:
    verdict = {"status": "ok", "score": 0.0, "critique": "It adds."}
    service.replies["/v1/score/batch"] = Reply({"results": [verdict]})
    plain, asking, unasked = (
        judge(service.url),
        judge(service.url, critique=True),
        judge("http://x"),
    )
    steps = [env.step(WRONG) for env in (plain, asking)]
    assert "judge_critique" not in plain.get_metrics() | unasked.get_metrics()
    assert asking.get_metrics()["judge_critique"] == "It adds."
    assert not any(step["observations"] or step["metadata"] for step in steps)
    means = GSM8kJudgeEnv.aggregate_metrics([asking.get_metrics()])
    assert means.keys() == GSM8kJudgeEnv.aggregate_metrics([plain.get_metrics()]).keys()


def test_episodes_are_reported_as_means_and_the_longest_wait(service: FakeService) -> None:
    episodes = [judge(service.url) for _ in range(3)]
    for env in episodes[:2]:
        env.step(RIGHT)
    metrics = GSM8kJudgeEnv.aggregate_metrics([env.get_metrics() for env in episodes])

    assert metrics["judge_ok_mean"] == 1.0
    assert metrics["judge_wall_ms_max"] >= metrics["judge_wall_ms_mean"] > 0
    # SkyRL's fully asynchronous trainer adds up what has none of these in its name.
    assert all("mean" in name or "max" in name for name in metrics)
    assert GSM8kJudgeEnv.aggregate_metrics([{}]) == {}


def test_without_a_service_the_rule_decides_and_reports_it() -> None:
    env = judge(dead_url(), timeout_s=1.0, on_failure="rule")

    assert env.step(RIGHT)["reward"] == 1.0
    metrics = env.get_metrics()
    assert (metrics["judge_ok"], metrics["judge_fallback"]) == (0.0, 1.0)
    assert metrics["judge_failed_error"] + metrics["judge_failed_timeout"] == 1.0


@pytest.mark.parametrize("on_failure", ["rule", "none"])
def test_an_undecided_sample_is_marked(service: FakeService, on_failure: str) -> None:
    env = judge(service.url, on_failure=on_failure)
    env.step(RIGHT)
    env.step(UNDECIDED)

    assert env.get_metrics()["judge_undecided"] == 1.0


def test_an_exception_of_the_client_ends_nothing(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    env = judge(service.url)
    fails = RuntimeError("a bug")
    monkeypatch.setattr(env._client, "score", lambda _: (_ for _ in ()).throw(fails))

    assert env.step(RIGHT)["reward"] == 0.0
    metrics = env.get_metrics()
    assert (metrics["judge_failed_error"], metrics["judge_undecided"]) == (1.0, 1.0)
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"on_failure": "raise"}, "on_failure=raise"),
        ({"group_size": 4, "on_failure": "rule"}, "on_failure=rule with group_size"),
    ],
)
def test_a_setting_that_would_mix_scales_is_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        judge("http://127.0.0.1:1", **settings)


@pytest.mark.parametrize("extras", [{}, *map(row, [None, math.nan, []])])
def test_a_row_without_a_gold_answer_is_undecided_and_a_run_of_them_ends(
    service: FakeService, extras: dict[str, Any]
) -> None:
    unlabelled = GSM8kJudgeEnv(env_config={"url": service.url}, extras=extras)

    for _ in range(REFUSED_SAMPLES - 1):  # of one odd row, say
        unlabelled.step(RIGHT)
        assert unlabelled.get_metrics()["judge_undecided"] == 1.0
    assert "reference" not in service.calls[0].body["requests"][0]
    with pytest.raises(RefusedRowError, match="no retry changes it: reference: is missing"):
        unlabelled.step(RIGHT)
    assert judge(service.url).step(RIGHT)["reward"] == 1.0
    unlabelled.step(RIGHT)  # later ones are left out
    assert unlabelled.get_metrics()["judge_undecided"] == 1.0


def test_the_sections_settings_reach_the_request(service: FakeService, tmp_path: Path) -> None:
    options = {"mode": "generate", "max_tokens": 64}
    (tmp_path / "key").write_text("secret\n", encoding="utf-8")
    settings = {"model": "rule", "template": "solution", "api_key_file": str(tmp_path / "key")}
    judge(service.url, options=options, **settings).step(RIGHT)
    judge(service.url, template=None, options={}, max_attempts=None).step(RIGHT)
    service.replies["/v1/score/batch"] = Reply({"detail": "no"}, 503, {"Retry-After": "0"})
    judge(service.url, max_attempts=2, timeout_s=5.0).step(RIGHT)

    assert service.calls[0].headers["authorization"] == "Bearer secret"
    (request,), (plain,) = (call.body["requests"] for call in service.calls[:2])
    assert (request["template"], request["options"]) == ("solution", options)
    assert (request["model"], request["response"]) == ("rule", RIGHT)
    assert not plain.keys() & {"template", "options", "model"}, "left unset: the deployment's"
    assert len(service.calls) == 4


def test_components_are_metrics_of_the_episodes_that_have_them(service: FakeService) -> None:
    absent = {"score": None, "status": "timeout", "reason": "late"}
    episodes = []
    for brief in ({"score": 0.5, "status": "ok"}, absent):
        parts = {"true": {"score": 1.0, "status": "ok"}, "brief": brief}
        reply = {"status": "ok", "score": 1.0, "components": parts}
        service.replies["/v1/score/batch"] = Reply({"results": [reply]})
        extras = {"extra_info": {"rubric": "style"}}
        env = GSM8kJudgeEnv(env_config={"url": service.url}, extras=extras)
        env.step("A poem.")
        episodes.append(env.get_metrics())
    metrics = GSM8kJudgeEnv.aggregate_metrics(episodes)

    assert service.calls[0].body["requests"][0].keys() >= {"rubric", "response"}
    assert "judge_component_brief" not in episodes[1]
    assert metrics["judge_component_true_mean"] == 1.0
    assert metrics["judge_component_brief_mean"] == 0.5
