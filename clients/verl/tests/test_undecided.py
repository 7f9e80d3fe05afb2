"""Undecided samples through verl 0.9.1's V1 trainer, from reward to gradient.

Real: agent loop worker, TransferQueue, replay buffers, padding, advantage, loss. Fake: generation
and the policy, which is a table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import PreTrainedTokenizerFast
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.workers.config import ActorConfig

from clients.verl.tests.reward_loop import configured
from reward_serve.client.rows import RefusedRowError
from reward_serve_verl import training
from reward_serve_verl.training import DecidedReplayBuffer
from tests.fake_service import FakeService, Reply, dead_url

RIGHT, WRONG, UNDECIDED = "So #### 18", "#### 17", "18 or 17, who knows?"
FOUR = [RIGHT, WRONG, UNDECIDED, RIGHT]
EIGHT = [RIGHT, UNDECIDED, WRONG, WRONG, RIGHT, UNDECIDED, WRONG, RIGHT]
DECIDED = "DecidedRewardManager"
REWARD = {RIGHT: 1.0, WRONG: 0.0}
PROMPT = [{"role": "user", "content": "How many?"}]


@pytest.fixture(scope="module", autouse=True)
def queue() -> Iterator[None]:
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    tq.init()
    yield
    tq.close()
    ray.shutdown()


@pytest.fixture(autouse=True)
def empty(queue: None) -> Iterator[None]:
    """Clears the queue after each test, verl's padding rows included."""
    yield
    if left := list(tq.kv_list("train").get("train", {})):
        tq.kv_clear(partition_id="train", keys=left)


def worker_of(ids: Any, reward: RewardLoopWorker) -> Any:
    """verl's agent loop worker, its generation from a list."""

    class Worker(AgentLoopWorkerTQ.__ray_metadata__.modified_class):  # type: ignore[misc]
        def __init__(self) -> None:
            self.config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"n": 0}}})
            self.processor, self.distillation_enabled = None, False
            self.mm_processor_kwargs: dict[str, Any] = {}
            score = SimpleNamespace(remote=reward.compute_score)
            self.reward_loop_worker_handles = [SimpleNamespace(compute_score=score)]

        async def run(self, groups: dict[str, Sequence[Any]]) -> None:
            for uid, responses in groups.items():
                tag = {"is_prompt": True, "status": "pending", "global_steps": 1}
                await tq.async_kv_put(key=uid, partition_id="train", tag=tag)
                prompt = {"uid": uid, "responses": responses, "__rollout_n__": len(responses)}
                await self._run_prompt(prompt, {}, trajectory={"validate": False})

        async def _run_agent_loop(
            self, sampling_params: Any, *, session_id: int, uid: str, responses: Any, **_: Any
        ) -> None:
            texts = responses[session_id]  # of a list, an output each
            outputs = [
                AgentLoopOutput(
                    prompt_ids=[1, 2],
                    response_ids=tokens,
                    response_mask=[1] * len(tokens),
                    response_logprobs=[-1.0] * len(tokens),
                    num_turns=2,
                    metrics=AgentLoopMetrics(),
                    extra_fields={
                        "min_global_steps": 1, "max_global_steps": 1, "reward_extra_info": {}
                    },
                )
                for tokens in map(ids.encode, [texts] if isinstance(texts, str) else texts)
            ]  # fmt: skip
            row = {
                "data_source": "gsm8k",
                "raw_prompt": PROMPT,
                "reward_model": {"style": "rule", "ground_truth": "18"},
                "extra_info": {"index": 0, "question": "How many?"},
            }
            await self._agent_loop_postprocess(
                outputs, False, uid=uid, session_id=session_id, global_steps=1, **row
            )

    return Worker()


@pytest.fixture
def rollout(tokenizer: Any) -> Callable[..., None]:
    """Rolls groups of responses out: each scored (by default no service is up) and queued."""
    url = dead_url()
    ids = PreTrainedTokenizerFast.from_pretrained(tokenizer)

    async def run(groups: dict[str, Sequence[Any]], settings: dict[str, Any]) -> None:
        settings = {"url": url, "timeout_s": 0.2, "on_failure": "rule", **settings}
        config = configured(tokenizer=tokenizer, manager=DECIDED, **settings)
        await worker_of(ids, RewardLoopWorker(config)).run(groups)

    return lambda groups, **settings: asyncio.run(run(groups, settings))


def buffer_of(
    kind: type, mode: str, refill: Callable[[int], None] | None = None, **kwargs: Any
) -> Any:
    return kind(
        trainer_mode=mode,
        trainer_config={},
        max_off_policy_threshold=None,
        max_off_policy_strategy="drop",
        sampler_kwargs=kwargs,
        poll_interval=0.01,
        refill_fn=refill,
    )


def gradient(rows: TensorDict, advantages: torch.Tensor, mode: str, size: int) -> torch.Tensor:
    """Of verl's policy loss, for a policy that gives each token a probability of its own."""
    policy = torch.linspace(-1, 1, 300, dtype=torch.float64).requires_grad_()
    mask = rows["response_mask"].bool()
    log_prob = policy.log_softmax(-1)[rows["responses"]]
    config = ActorConfig(strategy="fsdp", ppo_micro_batch_size_per_gpu=1, rollout_n=1)
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=mask.sum(), global_batch_size=size, loss_scale_factor=32
    )
    loss, _ = compute_policy_loss_vanilla(
        log_prob.detach() - 0.05, log_prob, advantages, mask, mode, config
    )
    loss.backward()
    assert policy.grad is not None
    return policy.grad


def trained(batch: Any, pad_to: int, mode: str) -> torch.Tensor:
    """The gradient that verl's trainer makes of a batch of its replay buffer."""
    batch = upsample_batch_to_divisible_size(batch, pad_to, eos_token_id=0)
    config = OmegaConf.create(
        {
            "algorithm": {"use_kl_in_reward": False, "adv_estimator": "grpo", "gamma": 1, "lam": 1},
            "actor_rollout_ref": {"rollout": {"n": 4}},
        }
    )
    PPOTrainer._compute_advantage(SimpleNamespace(config=config), batch, {})
    fields = ["responses", "response_mask", "advantages"]
    rows = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=fields)
    rows = rows.to_padded_tensor()
    return gradient(rows, rows["advantages"], mode, pad_to)


def without(groups: Sequence[Sequence[str]], tokenizer: Any, mode: str, size: int) -> torch.Tensor:
    """verl's gradient of the decided samples alone, as if no other had ever been sampled."""
    ids = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    decided = [(n, r) for n, group in enumerate(groups) for r in group if r in REWARD]
    tokens = [torch.tensor(ids.encode(response)) for _, response in decided]
    responses = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
    mask = torch.zeros_like(responses)
    rewards = torch.zeros(responses.shape)
    for row, (_, response) in enumerate(decided):
        mask[row, : len(tokens[row])] = 1
        rewards[row, len(tokens[row]) - 1] = REWARD[response]
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": np.array([str(n) for n, _ in decided], dtype=object)},
    )
    data = compute_advantage(data, adv_estimator="grpo", config=AlgoConfig())
    rows = TensorDict({"responses": responses, "response_mask": mask}, batch_size=len(decided))
    return gradient(rows, data.batch["advantages"], mode, size)


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Advantages are float32 sums in the order of the rows, so the largest entry sets the scale."""
    largest = expected.abs().max().item()
    assert largest > 1e-6
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("mode", ["seq-mean-token-mean", "seq-mean-token-sum-norm"])
def test_sequence_means_divide_by_the_samples_that_were_asked_for(
    mode: str, rollout: Any, tokenizer: Any
) -> None:
    rollout({"a": FOUR})
    batch, _ = buffer_of(DecidedReplayBuffer, "sync").sample(1, "train", 1)
    got = trained(batch, 4, mode)

    assert_same(got, without([FOUR], tokenizer, mode, 3) * 3 / 4)


@pytest.mark.parametrize("group", [FOUR, EIGHT], ids=["n4", "n8"])
def test_gradients_are_those_of_a_step_without_the_undecided(
    group: list[str], rollout: Any, tokenizer: Any
) -> None:
    whole = [WRONG, WRONG, RIGHT, WRONG] * (len(group) // 4)
    rollout({"a": group, "b": whole})
    batch, _ = buffer_of(DecidedReplayBuffer, "sync").sample(1, "train", 2)
    assert len(batch) == sum(r in REWARD for r in [*group, *whole])
    got = trained(batch, 2 * len(group), "token-mean")

    assert_same(got, without([group, whole], tokenizer, "token-mean", 0))


def test_a_sample_of_no_tokens_is_left_out_by_name(
    rollout: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rollout({"a": [RIGHT, "", WRONG]})
    batch, _ = buffer_of(DecidedReplayBuffer, "sync").sample(1, "train", 1)

    assert sorted(batch.keys) == ["a_0_0", "a_2_0"]
    assert "response: has no tokens, at the last of which verl stores a score" in caplog.text
    assert "IndexError" not in caplog.text


def test_all_outputs_of_a_trajectory_are_judged_together_and_share_their_reward(
    rollout: Any,
) -> None:
    long = f"I summarise what I have tried so far, {WRONG}, and begin again."
    trajectories = [[long, RIGHT], [RIGHT, WRONG], [long, UNDECIDED], RIGHT]
    with FakeService() as service:
        rollout({"a": trajectories}, url=service.url, timeout_s=20, on_failure="none")
    batch, _ = buffer_of(DecidedReplayBuffer, "sync").sample(1, "train", 1)
    rows = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["rm_scores"])
    scores = dict(zip(batch.keys, (row.sum().item() for row in rows["rm_scores"]), strict=True))

    assert scores == {"a_0_0": 1, "a_0_1": 1, "a_1_0": 0, "a_1_1": 0, "a_3_0": 1}
    bodies = [request for call in service.calls for request in call.body["requests"]]
    asked = [request["messages"] for request in bodies if "messages" in request]
    turns = [[{"role": "assistant", "content": text} for text in t] for t in trajectories[:3]]
    assert sorted(map(str, asked)) == sorted(str([*PROMPT, *written]) for written in turns)


@pytest.mark.parametrize(("limit_s", "warned"), [(20, True), (21, False)])
def test_a_limit_of_verls_at_the_deadline_is_warned_about(
    limit_s: float, warned: bool, tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured("http://x", tokenizer, DECIDED)
    config.reward.timeout = limit_s
    RewardLoopWorker(config)

    sentence = "reward.timeout=20: verl then gives a sample up before its deadline of 20 s"
    assert (sentence in caplog.text) == warned


def test_a_lone_survivor_is_not_trained_on(rollout: Any) -> None:
    rollout({"a": FOUR, "b": [UNDECIDED, RIGHT, UNDECIDED, UNDECIDED]})
    batch, _ = buffer_of(DecidedReplayBuffer, "sync").sample(1, "train", 2)

    assert {key.split("_")[0] for key in batch.keys} == {"a"}
    assert set(tq.kv_list("train")["train"]) == set(batch.keys)


@pytest.mark.parametrize("last", [RIGHT, UNDECIDED], ids=["lone survivor", "all undecided"])
def test_a_step_of_undecided_samples_ends_before_the_optimiser(last: str, rollout: Any) -> None:
    rollout({"a": [UNDECIDED] * 4, "b": [UNDECIDED] * 3 + [last]})

    with pytest.raises(RuntimeError, match="all 2 prompts have fewer than two decided"):
        buffer_of(DecidedReplayBuffer, "sync").sample(1, "train", 2)


@pytest.mark.parametrize("mistake", [{"model": "jugde"}, {"api_key": "wrong"}])
def test_a_typo_ends_a_run_that_a_rule_would_have_rewarded(
    mistake: dict[str, str], rollout: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeService() as service:
        if "api_key" in mistake:
            service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
        rollout({"a": [RIGHT, WRONG]}, url=service.url, timeout_s=20, **mistake)

    with pytest.raises(RuntimeError, match="all 1 prompts have fewer than two decided"):
        buffer_of(DecidedReplayBuffer, "sync").sample(1, "train", 1)
    sentence = (
        "no model is named 'jugde'" if "model" in mistake else "HTTP 401: unknown API key; set"
    )
    assert sentence in caplog.text


@pytest.mark.parametrize("mistake", [{"model": "jugde"}, {"api_key": "wrong"}])
def test_a_typo_ends_a_run_before_the_next_samples_are_generated(
    mistake: dict[str, str], tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated: list[Any] = []
    verls = training.AgentLoopManagerTQ
    monkeypatch.setattr(verls, "generate_sequences", lambda _, prompts: generated.append(prompts))
    manager = object.__new__(training.LoopManager)
    with FakeService() as service:
        manager.config = configured(service.url, tokenizer)
        manager.generate_sequences(TensorDict({}, batch_size=0))
        if "api_key" in mistake:
            service.replies["/v1/score/batch"] = Reply({"detail": "unknown API key"}, 401)
        manager.config = configured(service.url, tokenizer, **mistake)
        sentence = (
            "no model is named 'jugde'" if "model" in mistake else "HTTP 401: unknown API key"
        )
        with pytest.raises(RefusedRowError, match=f"no sample can have a verdict: .*{sentence}"):
            manager.generate_sequences(TensorDict({}, batch_size=0))
    manager.config = configured(dead_url(), tokenizer)  # an outage may pass
    manager.generate_sequences(TensorDict({}, batch_size=0))
    assert len(generated) == 2


def test_asynchronous_training_replaces_the_group(rollout: Any) -> None:
    asked: list[int] = []

    def refill(prompts: int) -> None:
        asked.append(prompts)
        rollout({"c": [RIGHT, WRONG, WRONG, RIGHT]})

    rollout({"a": FOUR, "b": [RIGHT, WRONG, RIGHT, RIGHT]})
    batch, _ = buffer_of(ReplayBufferAsync, "colocate_async", refill).sample(1, "train", 2)

    assert asked == [1]
    assert {key.split("_")[0] for key in batch.keys} == {"b", "c"}


def test_in_asynchronous_training_the_synchronous_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"leave trainer\.v1\.sampler\.custom_sampler unset"):
        buffer_of(DecidedReplayBuffer, "separate_async")


@pytest.mark.parametrize(("on_failure", "refused"), [("rule", True), (0.0, False)])
def test_the_legacy_trainer_is_refused_unless_a_reward_is_named(
    on_failure: Any, refused: bool, tokenizer: Any
) -> None:
    legacy = {"manager": DECIDED, "use_v1": False, "on_failure": on_failure}
    config = configured("http://x", tokenizer, **legacy)
    if not refused:
        RewardLoopWorker(config)
        return
    with pytest.raises(ValueError, match=r"trainer\.use_v1=false with on_failure=rule"):
        RewardLoopWorker(config)
