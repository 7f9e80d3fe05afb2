"""SkyRL 0.4.0's trainer and policy worker on a CPU, over a policy of one table.

Real: the trainers' own post-processing, advantages, reductions and mini-batches, the dispatch's
chunks and padding, the worker's micro-batches, losses and backward pass. Fakes: the model, and the
processes and devices between which SkyRL moves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from skyrl.backends.skyrl_train.distributed.dispatch import MeshDispatch
from skyrl.backends.skyrl_train.utils.ppo_utils import PolicyLossRegistry
from skyrl.backends.skyrl_train.workers.worker import PolicyWorkerBase
from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer, GeneratedOutputGroup

from reward_serve_skyrl.config import JudgedTrainConfig

VOCABULARY = 32


class Policy(torch.nn.Module):
    """The next token by the one before it; called as SkyRL's ``HFModelWrapper`` is."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        logits = torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(seed))
        self.logits = torch.nn.Parameter(logits.double())

    def forward(self, sequences: Any, num_actions: int, **_: Any) -> tuple[Any, dict[str, Any]]:
        log_probs = self.logits[sequences % VOCABULARY].log_softmax(-1)
        following = (sequences[:, 1:] % VOCABULARY).unsqueeze(-1)
        chosen = log_probs[:, :-1].gather(-1, following).squeeze(-1)
        return chosen[:, -num_actions:], {"entropy": -(log_probs.exp() * log_probs).sum(-1)}


class Worker(PolicyWorkerBase):  # type: ignore[misc]  # skyrl is untyped
    """One of ``ranks`` policy workers."""

    def __init__(self, cfg: Any, model: Policy, ranks: int) -> None:
        self.cfg = cfg.trainer
        self.model = model
        self.optimizer = None
        self.scheduler = SimpleNamespace(get_last_lr=lambda: [0.0])
        self.mesh_rank = SimpleNamespace(dp_size=ranks)
        self.device_mesh = SimpleNamespace(get_group=lambda name: None)
        self.strategy = SimpleNamespace(
            backward=lambda loss, model, optimizer: loss.backward(),
            all_reduce=lambda data, *args, **kwargs: data,
        )
        self.policy_loss_fn = PolicyLossRegistry.get(self.cfg.algorithm.policy_loss_type)


class Dispatch:
    """The calls that the trainer makes of its workers, in this process."""

    def __init__(self, cfg: Any, ranks: int = 1) -> None:
        self.policy, self.ref, self.ranks = Policy(0), Policy(1), ranks
        self.worker = Worker(cfg, self.policy, ranks)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=0.01)
        self.gradients: list[torch.Tensor] = []
        """Of each optimiser step."""
        self.trained: list[int] = []
        """Samples of each mini-batch."""

    def get_lcm_dp_size(self) -> int:
        return self.ranks

    def forward(self, model: str, data: Any) -> Any:
        policy = self.policy if model == "policy" else self.ref
        with torch.no_grad():
            rows, _ = policy(data["sequences"], data.metadata["response_length"])
        return SimpleNamespace(loss_fn_outputs=[{"logprobs": row.tolist()} for row in rows])

    def stage_data(self, model: str, data: Any, boundaries: Any) -> Any:
        return MeshDispatch.stage_chunks(self.ranks, data, boundaries)

    def forward_from_staged(self, model: str, chunks: Sequence[Any]) -> Any:
        rows = [row for chunk in chunks for row in self.forward(model, chunk).loss_fn_outputs]
        return SimpleNamespace(loss_fn_outputs=rows)

    def forward_backward_from_staged(self, model: str, chunks: Sequence[Any]) -> Any:
        assert len(chunks) == self.ranks
        self.trained.append(sum(len(chunk) for chunk in chunks))
        outputs = [self.worker.forward_backward(chunk) for chunk in chunks]
        self.policy.logits.grad /= self.ranks  # as data-parallel workers average
        return outputs[0]

    def optim_step(self, model: str) -> float:
        gradient = self.policy.logits.grad
        assert gradient is not None
        self.gradients.append(gradient.clone())
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(self.gradients[-1].norm())

    def empty_cache(self, model: str | None = None) -> None: ...
    def init_weight_sync_state(self, client: Any) -> None: ...
    def finalize_pending_saves(self, model: str) -> None: ...
    async def save_weights_for_sampler(self) -> None: ...
    def get_timing_metrics(self) -> dict[str, float]:
        return {}


@contextmanager
def on_cpu() -> Iterator[None]:
    """Where SkyRL names CUDA's current device or Ray's object store, this process."""
    with (
        patch("torch.cuda.current_device", lambda: torch.device("cpu")),
        patch("skyrl.backends.skyrl_train.distributed.dispatch.ray.put", lambda value: value),
        patch("torch.autocast", lambda **kwargs: torch.enable_grad()),
    ):
        yield


@dataclass
class Sample:
    """A rollout: its reward, or None where nobody could decide."""

    group: str
    reward: float | None
    tokens: list[int] = field(default_factory=list)

    @property
    def metrics(self) -> dict[str, float]:
        failed = float(self.reward is None)
        return {"judge_undecided": failed, "judge_failed_timeout": failed}


def samples_of(rewards: Sequence[Sequence[float | None]]) -> list[Sample]:
    """A group of samples for each list of rewards, their responses of differing lengths."""
    made = []
    for group, of_group in enumerate(rewards):
        for number, reward in enumerate(of_group):
            length = 2 + (3 * number + group) % 5
            tokens = [(7 * group + 5 * number + 3 * place) % 29 + 1 for place in range(length)]
            made.append(Sample(f"prompt {group}", reward, tokens))
    return made


def output_of(samples: Sequence[Sample]) -> dict[str, Any]:
    """The samples as SkyRL's generator gives them."""
    return {
        "prompt_token_ids": [[30, 2 + int(s.group[-1])] for s in samples],
        "response_ids": [s.tokens for s in samples],
        "rewards": [[0.0] * (len(s.tokens) - 1) + [s.reward or 0.0] for s in samples],
        "loss_masks": [[1] * len(s.tokens) for s in samples],
        "stop_reasons": ["stop"] * len(samples),
        "rollout_logprobs": [[-3.0] * len(s.tokens) for s in samples],
        "rollout_metrics": {},
        "env_metrics": [s.metrics for s in samples],
    }


def group_of(samples: Sequence[Sample]) -> GeneratedOutputGroup:
    """One prompt's samples as the asynchronous trainer's generation workers give them."""
    return GeneratedOutputGroup(output_of(samples), samples[0].group, 1)


def config(samples: Sequence[Sample], *overrides: str) -> JudgedTrainConfig:
    """A step of these samples, in two mini-batches; a KL loss that weighs something."""
    groups = len({s.group for s in samples})
    read: JudgedTrainConfig = JudgedTrainConfig.from_cli_overrides(
        [
            f"generator.n_samples_per_prompt={len(samples) // groups}",
            f"trainer.train_batch_size={groups}",
            f"trainer.policy_mini_batch_size={groups // 2}",
            "trainer.micro_train_batch_size_per_gpu=3",
            "trainer.algorithm.kl_loss_coef=0.5",
            "trainer.algorithm.max_seq_len=16",
            *overrides,
        ]
    )
    return read


def trainer_of(kind: type, cfg: Any, ranks: int = 1) -> Any:
    """A trainer of this class, without the processes that its constructor asks for."""
    trainer = object.__new__(kind)
    trainer.cfg = cfg
    trainer.dispatch = Dispatch(cfg, ranks)
    trainer.ref_model = object()
    trainer.tokenizer = SimpleNamespace(pad_token_id=0, decode=str)
    trainer.trajectory_logger = trainer.reward_kl_controller = None
    trainer.all_metrics, trainer.all_timings = {}, {}
    trainer.global_step, trainer.max_staleness_steps = 1, 1
    return trainer


def step(trainer: Any, samples: Sequence[Sample]) -> list[torch.Tensor]:
    """One step of a trainer, from the rollouts on; the gradients of its optimiser steps."""
    with on_cpu():
        if isinstance(trainer, FullyAsyncRayPPOTrainer):
            groups = [list(group) for _, group in groupby(samples, lambda s: s.group)]
            data = trainer.convert_generation_group_mini_batch_to_training_input(
                [group_of(group) for group in groups]
            )
            asyncio.run(trainer._run_training(data))
        else:
            _step_synchronously(trainer, samples)
    gradients: list[torch.Tensor] = trainer.dispatch.gradients
    return gradients


def _step_synchronously(trainer: Any, samples: Sequence[Sample]) -> None:
    """What ``RayPPOTrainer.train`` does between generation and saving."""
    uids = [s.group for s in samples]
    output, uids = trainer.postprocess_generator_output(output_of(samples), uids)
    data = trainer.fwd_logprobs_values_reward(trainer.convert_to_training_input(output, uids))
    data = trainer.compute_advantages_and_returns(data)
    data.pop("rewards")
    data.metadata.pop("uids")
    trainer.train_critic_and_policy(data)
