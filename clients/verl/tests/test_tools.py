"""Conversations with tools by verl 0.9.1's own agent loop and tool parser, and rewards of turns.

Real: worker, agent loop, tools, parser, reward loop, advantages. Fake: the texts, TransferQueue.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import verl.trainer
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from transformers import LlamaConfig, PreTrainedTokenizerFast
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.utils.tensordict_utils import assign_non_tensor_data, get_tensordict
from verl.workers.rollout.replica import TokenOutput

import reward_serve_verl
from clients.verl.tests.reward_loop import configured
from reward_serve_verl.agent_loop import JudgedOutput
from reward_serve_verl.training import LoopManager
from tests.fake_service import FakeService, dead_url, verdicts
from tests.tool_turns import PROMPT, SAMPLES, messages, texts

TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<pad>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
TOOL = "from verl.tools.function_tool import function_tool\nfrom tests.tool_turns import multiply\n"


class Server:
    """Answers with the samples' texts, each sample to its own trajectory."""

    def __init__(self, ids: PreTrainedTokenizerFast) -> None:
        self._ids, self._fresh = ids, iter(SAMPLES)
        self._turns: dict[str, Any] = {}

    async def generate(self, request_id: str, **_: Any) -> TokenOutput:
        if request_id not in self._turns:
            self._turns[request_id] = iter(texts(next(self._fresh)))
        ids = self._ids.encode(next(self._turns[request_id]) + "<pad>")
        steps = {"min_global_steps": 1, "max_global_steps": 1}
        return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids), extra_fields=steps)


@pytest.fixture
def rollout(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[Any]]:
    """Rolls the samples out as a group, and returns what verl stored, the shortest first."""
    ids = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    ids.chat_template = TEMPLATE
    ids.save_pretrained(tmp_path)
    LlamaConfig(architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)
    (tmp_path / "tools.py").write_text(f"{TOOL}function_tool(multiply)\n")
    loops = Path(reward_serve_verl.__file__).parent / "agent_loops.yaml"
    values = {
        "model.path": tmp_path,
        "rollout.name": "vllm",
        "rollout.n": len(SAMPLES),
        "rollout.response_length": 1000,
        "rollout.multi_turn.max_assistant_turns": 3,  # the third is not parsed
        "rollout.agent.default_agent_loop": "tool_agent",
        "rollout.agent.agent_loop_config_path": loops,
        "rollout.multi_turn.function_tool_path": tmp_path / "tools.py",
    }
    folder = str(Path(verl.trainer.__file__).parent / "config")
    with initialize_config_dir(folder, version_base="1.3"):
        overrides = [f"actor_rollout_ref.{name}={value}" for name, value in values.items()]
        config = compose("ppo_trainer", overrides)
    OmegaConf.set_struct(config, False)
    row = {
        "uid": "a", "raw_prompt": PROMPT, "data_source": "x", "index": 0,
        "reward_model": {"ground_truth": "18"}, "extra_info": {"level": "easy"},
    }  # fmt: skip

    async def run(url: str, step: int, validate: bool, **settings: Any) -> None:
        merged = OmegaConf.merge(
            config, configured(url, tmp_path, "DecidedRewardManager", **settings)
        )
        reward = RewardLoopWorker(merged)

        async def score(batch: DataProto) -> dict[str, Any]:  # of an actor, which gets a copy
            output: dict[str, Any] = await reward.compute_score(pickle.loads(pickle.dumps(batch)))
            return output

        handle = SimpleNamespace(compute_score=SimpleNamespace(remote=score))
        kind = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class
        worker = kind(merged, Server(ids), reward_loop_worker_handles=[handle])
        manager = object.__new__(LoopManager)
        manager.config = merged
        generate = SimpleNamespace(remote=lambda chunk: worker.generate_sequences(chunk))
        manager.agent_loop_workers = [SimpleNamespace(generate_sequences=generate)]
        columns = {name: np.array([value, None], dtype=object)[:1] for name, value in row.items()}
        batch = get_tensordict(columns)  # as verl's trainer makes it
        assign_non_tensor_data(batch, "global_steps", step)
        if validate:
            assign_non_tensor_data(batch, "validate", True)
        calls: list[Any] = []
        monkeypatch.setattr(agent_loop_tq.ray, "get", calls.extend)
        manager.generate_sequences(batch)
        await asyncio.gather(*calls)
        await asyncio.gather(*worker.background_tasks)

    stored: list[Any] = []

    async def put(fields: Any = None, **_: Any) -> None:
        stored.extend([] if fields is None else fields)

    queue = SimpleNamespace(init=lambda: None, async_kv_put=put, async_kv_batch_put=put)
    monkeypatch.setattr(agent_loop_tq, "tq", queue)

    def rolled_out(url: str, step: int = 1, validate: bool = False, **settings: Any) -> list[Any]:
        asyncio.run(run(url, step, validate, **settings))
        return sorted(stored, key=lambda row: len(row["responses"]))

    return rolled_out


def test_conversations_are_judged_and_an_undecided_one_is_left_out(rollout: Any) -> None:
    with FakeService() as service:
        rows = rollout(service.url, turns="log", on_failure="none")
    bodies = [call.body for call in service.calls]
    asked = [request for body in bodies for request in body["requests"] if "messages" in request]

    assert sorted((request["messages"] for request in asked), key=str) == sorted(
        map(messages, SAMPLES), key=str
    )
    (tool,) = asked[0]["tools"]
    assert (tool["function"]["name"], asked[0]["turns"]) == ("multiply", True)
    scores = [row["extra_fields"]["reward_extra_info"]["turn_scores"] for row in rows]
    assert "rollout_conversation" not in rows[0]["extra_fields"]  # whose tokens are stored
    assert scores == ["[0.0]", "[null, 1.0]"]
    assert [row["rm_scores"][-1].item() for row in rows] == [0.0, 1.0]


def test_steps_samples_and_validation_are_told_apart_in_the_verdict_log(
    rollout: Any, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with FakeService(log=log) as service:
        for step, validate in ((1, False), (2, False), (2, True)):
            rollout(service.url, step, validate)

    lines = [
        tuple(line[key] for key in ("run", "step", "sample", "group"))
        for line in verdicts(log)
        if line["run"]  # the probe has none
    ]
    assert set(lines) == {
        *(("first run", step, f"a_{n}", "a") for step in (1, 2) for n in range(len(SAMPLES))),
        ("first run/eval", 2, "a_0", "a"),
    }


def test_a_sample_whose_turn_is_absent_is_left_out_where_turns_are_rewarded(rollout: Any) -> None:
    with FakeService() as service:
        (row,) = rollout(service.url, turns="differences")
    assert row["extra_fields"]["reward_extra_info"]["turn_rewards"] == "[0.0]"


@pytest.mark.parametrize(
    ("rewards", "stored"), [([0.25, 0.5], [0, 0.25, 0, 0, 0.5]), ([0.25] * 3, [0, 0, 0, 0, 0.75])]
)
def test_rewards_of_turns_stand_at_their_ends_and_estimators_see_them(
    rewards: list[float], stored: list[float]
) -> None:
    mask = [1, 1, 0, 1, 1]
    info = {"turn_rewards": str(rewards)}
    row = JudgedOutput(
        prompt_ids=[1], response_ids=[2] * 5, response_mask=mask, metrics=AgentLoopMetrics(),
        reward_score=sum(rewards), extra_fields={"reward_extra_info": info},
    ).as_dict()  # fmt: skip
    tensors = {"token_level_rewards": row["rm_scores"], "response_mask": row["response_mask"]}
    batch = DataProto.from_dict({name: tensor[None] for name, tensor in tensors.items()})
    done = compute_advantage(batch, "reinforce_plus_plus", config=AlgoConfig(gamma=1.0))

    assert row["rm_scores"].tolist() == stored
    to_go = [sum(stored[at:]) * on for at, on in enumerate(mask)]
    assert done.batch["returns"][0].tolist() == to_go


def test_a_penalty_for_length_stands_at_the_last_token_beside_rewards_of_turns() -> None:
    row = JudgedOutput(
        prompt_ids=[1], response_ids=[2] * 3, response_mask=[1, 0, 1], metrics=AgentLoopMetrics(),
        reward_score=0.5,
        extra_fields={"reward_extra_info": {"score": 0.75, "turn_rewards": "[0.25, 0.5]"}},
    ).as_dict()  # fmt: skip
    assert row["rm_scores"].tolist() == [0.25, 0, 0.25]


def test_without_a_service_nothing_is_stored(rollout: Any) -> None:
    assert rollout(dead_url(), timeout_s=0.2, turns="differences") == []
