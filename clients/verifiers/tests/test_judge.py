"""verifiers' own evaluation, ``vf-eval``, with the judge plugged by its id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf
from pydantic import ValidationError
from verifiers.v1.cli.eval.main import main
from verifiers.v1.gepa.adapter import _episode_score

from clients.pool.tests.faulty import FaultyService, fault_of, reply_of, reward_of
from tests.fake_service import Reply

ROWS = 200
JUDGE = {"id": "reward-serve-verifiers", "name": "correct", "timeout_s": 2.0}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyService]:
    with FaultyService() as service:
        monkeypatch.setenv("REWARD_SERVE_URL", service.url)
        monkeypatch.setenv("REWARD_SERVE_TIMEOUT_S", "2")
        yield service


def evaluated(
    service: FaultyService, folder: Path, rows: int, task: dict[str, Any], env: str = ""
) -> list[dict[str, Any]]:
    """The traces that ``vf-eval`` writes, of an evaluation of our tasks, in their order."""
    agent = {"runtime": {"type": "subprocess"}}  # which needs no container
    taskset = {"id": "own_taskset", "size": rows, "task": task}
    config = {
        "env": {"id": env, "taskset": taskset, "agent": agent},
        "model": "policy",
        "client": {"base_url": f"{service.url}/v1", "api_key_var": "NO_KEY"},
        "push": False,
        "output_dir": str(folder),
        "run": {"name": "run"},
    }
    file = folder / "eval.json"
    file.write_text(json.dumps(config))
    main(["@", str(file), "--no-rich"])
    lines = (folder / "run" / "traces.jsonl").read_text().splitlines()
    traces = [trace for line in lines for trace in json.loads(line)["traces"]]
    return sorted(traces, key=lambda trace: trace["task"]["data"]["idx"])


def test_a_fifth_without_verdict_earns_no_number(service: FaultyService, tmp_path: Path) -> None:
    traces = evaluated(service, tmp_path, ROWS, {"judges": [JUDGE]})
    assert len(traces) == ROWS
    for row, trace in enumerate(traces):
        reward = trace["rewards"]["correct"]
        (call,) = trace["info"]["judge_calls"]
        assert (reward and reward["score"]) == reward_of(row)
        assert trace["ok"] == (reward is not None)
        if fault := fault_of(row):
            (error,) = trace["errors"]
            assert error["type"] == "TaskError"
            assert f"no verdict: {fault.value}" in error["message"]
            assert call["response"]["parsed"]["status"] == fault.value
    absent = [trace for trace in traces if trace["rewards"]["correct"] is None]
    assert len(absent) == ROWS // 5
    assert not any(trace["ok"] for trace in absent)


def test_a_trace_is_passed_whole(service: FaultyService, tmp_path: Path) -> None:
    judge = {**JUDGE, "view": "full_trace", "turns": True}
    _, trace = evaluated(service, tmp_path, 2, {"judges": [judge]})
    (call,) = trace["info"]["judge_calls"]
    request = call["request"]
    called, answered, last = request["messages"][1:]
    assert called["tool_calls"][0]["name"] == request["tools"][0]["name"] == "add"
    assert (answered["role"], answered["content"], last["content"]) == ("tool", "7", "#### 2")
    assert (request["id"], request["group"]) == (trace["id"], trace["task"]["key"])
    assert trace["metrics"] == {"correct/turn_2": 1.0}  # a turn that calls tools has no verdict


def test_replies_to_a_task_are_compared(service: FaultyService, tmp_path: Path) -> None:
    traces = evaluated(service, tmp_path, 1, {}, env="compared_env")
    assert [trace["rewards"]["rank"]["score"] for trace in traces] == [1.0] * 4
    (request,) = [call.body for call in service.calls if call.path == "/v1/score/group"]
    assert request["responses"] == [reply_of(0)] * 4


def test_a_comparison_that_fails_gives_no_reward(service: FaultyService, tmp_path: Path) -> None:
    service.replies["/v1/score/group"] = Reply({"detail": "no model has this name"}, 404)
    traces = evaluated(service, tmp_path, 1, {}, env="compared_env")
    assert [trace["rewards"] for trace in traces] == [{"rank": None}] * 4
    (line,) = (tmp_path / "run" / "traces.jsonl").read_text().splitlines()
    episode = json.loads(line)
    assert not episode["ok"]
    assert "EnvError" in episode["errors"][0]["type"]


def test_a_reward_is_plugged_by_its_path(service: FaultyService, tmp_path: Path) -> None:
    rewards = {"correct": {"fn": "reward_serve_verifiers:reward", "weight": 2.0}}
    traces = evaluated(service, tmp_path, 4, {"rewards": rewards})
    earned = [trace["rewards"]["correct"] for trace in traces]
    assert [reward and reward["score"] for reward in earned] == [reward_of(row) for row in range(4)]
    assert earned[1]["weight"] == 2.0


def test_gepa_counts_an_absent_verdict_as_0(service: FaultyService, tmp_path: Path) -> None:
    """verifiers' code, whichever judge fails; its evaluation and prime-rl leave the trace out."""
    evaluated(service, tmp_path, 1, {"judges": [JUDGE]})
    line = (tmp_path / "run" / "traces.jsonl").read_text()
    assert _episode_score(vf.WireEpisode.model_validate_json(line)) == 0.0


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"sampling": {"temperature": 0.0}}, "sampling: the service's deployments file sets it"),
        ({"turns": True}, "set view to full_trace"),
    ],
)
def test_a_setting_without_effect_is_refused(settings: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ValidationError, match=remedy):
        vf.TaskConfig(judges=[{**JUDGE, **settings}])
