"""NeMo Gym's own servers and runner, and a fifth of the verdicts absent."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nemo_gym.global_config import NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME
from nemo_gym.openai_utils import NeMoGymResponse
from pydantic import ValidationError

from clients.pool.tests.faulty import FaultyService, fault_of, prompt_of, reply_of, reward_of
from reward_serve.client.rows import RefusedRowError
from reward_serve_nemo_gym import (
    ServiceResourcesServer,
    ServiceResourcesServerConfig,
    ServiceVerifyRequest,
)
from tests.fake_service import free_port

ROWS = 200
APP = """
from reward_serve_nemo_gym import ServiceResourcesServer

if __name__ == "__main__":
    ServiceResourcesServer.run_webserver()
"""


@pytest.fixture(scope="module")
def service() -> Iterator[FaultyService]:
    with FaultyService() as service:
        yield service


def config_of(service: FaultyService, folder: Path) -> dict[str, Any]:
    """A run of our rows, with servers in this environment instead of one each."""
    model = {"base_url": f"{service.url}/v1", "api_key": "none", "model": "policy"}
    asks = {"domain": "math", "url": service.url, "timeout_s": 2.0}
    agent = {
        "resources_server": {"type": "resources_servers", "name": "math"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    unread = {"return_token_id_information": False, "uses_reasoning_parser": True}
    servers = {
        "policy_model": {"responses_api_models": {"vllm_model": model | unread}},
        "math": {"resources_servers": {"reward_serve": asks}},
        "math_agent": {"responses_api_agents": {"simple_agent": agent}},
    }
    for server in servers.values():
        ((kind, named),) = server.items()
        ((name, settings),) = named.items()
        settings["entrypoint"] = "app.py"
        place = folder / "environments" / kind / name
        place.mkdir(parents=True)
        (place / ".venv").symlink_to(sys.prefix)
    return {
        **servers,
        "head_server": {"host": "127.0.0.1", "port": free_port()},
        "skip_venv_if_present": True,
        "uv_venv_dir": str(folder / "environments"),
    }


@pytest.fixture(scope="module")
def run(service: FaultyService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which NeMo Gym's runner wrote rollouts, failures and metrics of our rows."""
    folder = tmp_path_factory.mktemp("run")
    server = folder / "resources_servers" / "reward_serve"
    server.mkdir(parents=True)
    (server / "app.py").write_text(APP)
    (server / "requirements.txt").write_text("reward-serve-nemo-gym\n")
    rows = [
        {"responses_create_params": {"input": [{"role": "user", "content": prompt_of(row)}]},
         "expected_answer": str(2 * row)}
        for row in range(ROWS)
    ]  # fmt: skip
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "gym.yaml").write_text(json.dumps(config_of(service, folder)))
    settings = {
        "config_paths": "[gym.yaml]",
        "agent_name": "math_agent",
        "input_jsonl_fpath": str(folder / "rows.jsonl"),
        "output_jsonl_fpath": "rollouts.jsonl",
        "num_samples_in_parallel": 32,
    }
    command = [sys.executable, Path(__file__).parent / "evaluate.py"]
    command += [f"+{name}={value}" for name, value in settings.items()]
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # uv, python
    variables = os.environ | {"PATH": programs, "RAY_ADDRESS": "local"}
    variables.pop(NEMO_GYM_CONFIG_DICT_ENV_VAR_NAME, None)  # the pool's tests set it
    log = (folder / "log").open("w")
    done = subprocess.run(command, cwd=folder, env=variables, stdout=log, stderr=log)
    assert not done.returncode, (folder / "log").read_text()[-4000:]
    return folder


def by_row(file: Path) -> dict[int, dict[str, Any]]:
    rows = map(json.loads, file.read_text().splitlines())
    return {int(row["expected_answer"]) // 2: row for row in rows}


@pytest.mark.timeout(600)
def test_a_fifth_without_verdict_goes_to_the_failures_file(run: Path) -> None:
    decided, failed = by_row(run / "rollouts.jsonl"), by_row(run / "rollouts_failures.jsonl")
    assert {row: rollout["reward"] for row, rollout in decided.items()} == {
        row: reward_of(row) for row in range(ROWS) if fault_of(row) is None
    }
    assert sorted(failed) == [row for row in range(ROWS) if fault_of(row)]
    for row, rollout in failed.items():
        assert rollout["_ng_failure_class"] == "judge_failed"
        assert rollout["mask_sample"]
        assert rollout["_ng_failure_judge_error"].startswith(str(fault_of(row)))
    assert (len(decided), len(failed)) == (ROWS * 4 // 5, ROWS // 5)


def test_metrics_are_of_rows_with_a_verdict(run: Path) -> None:
    (agent,) = json.loads((run / "rollouts_aggregate_metrics.json").read_text())
    rewards = [reward for reward in map(reward_of, range(ROWS)) if reward is not None]
    assert agent["agent_metrics"]["mean/reward"] == pytest.approx(sum(rewards) / len(rewards))


def item(**fields: Any) -> dict[str, Any]:
    return {"id": "1", "status": "completed", **fields}


def rollout(row: int) -> ServiceVerifyRequest:
    """A rollout that calls a tool, then answers."""
    content = [{"type": "output_text", "text": reply_of(row), "annotations": []}]
    called = item(type="function_call", call_id="call-1", name="add", arguments="{}")
    answered = {"type": "function_call_output", "call_id": "call-1", "output": "7"}
    response = NeMoGymResponse(
        id="1", created_at=0.0, model="policy", object="response", tool_choice="auto",
        parallel_tool_calls=False, tools=[],
        output=[called, answered, item(type="message", role="assistant", content=content)],
    )  # fmt: skip
    tool = {"type": "function", "name": "add", "parameters": {}, "strict": None}
    params = {"input": prompt_of(row), "tools": [tool]}
    fields = {"expected_answer": str(2 * row), "_ng_task_index": row}
    return ServiceVerifyRequest(responses_create_params=params, response=response, **fields)


def server_of(**settings: Any) -> ServiceResourcesServer:
    place = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py", "name": "math"}
    config = ServiceResourcesServerConfig(**place, **settings)
    return ServiceResourcesServer.model_construct(config=config)


def test_a_trace_is_passed_whole(service: FaultyService) -> None:
    server = server_of(url=service.url, view="full_trace", turns=True)
    verified = asyncio.run(server.verify(rollout(1)))
    (request,) = service.calls[-1].body["requests"]
    called, answered, last = request["messages"][1:]
    assert called["tool_calls"][0]["function"]["name"] == "add"
    assert (answered["role"], answered["content"], last["content"]) == ("tool", "7", "#### 2")
    assert request["tools"][0]["function"]["name"] == "add"
    assert request["group"] == "math/1"
    assert verified.reward == 1.0
    assert verified.reward_components == {"turn_2": verified.component_turn_2} == {"turn_2": 1.0}


def test_a_service_that_refuses_all_ends_the_run(service: FaultyService) -> None:
    server = server_of(url=service.url, model="misspelt")
    with pytest.raises(RefusedRowError):
        asyncio.run(server.verify(rollout(1)))


def test_turns_of_a_last_reply_are_refused() -> None:
    with pytest.raises(ValidationError, match="set view to full_trace"):
        server_of(turns=True)
