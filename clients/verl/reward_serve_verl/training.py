"""Leaves undecided samples out of verl 0.9.1's V1 trainer; enable it with these settings.

    reward.reward_manager.source=importlib
    reward.reward_manager.name=DecidedRewardManager
    reward.reward_manager.module.path=pkg://reward_serve_verl.training
    trainer.v1.sampler.custom_sampler.path=pkg://reward_serve_verl.training
    trainer.v1.sampler.custom_sampler.name=DecidedReplayBuffer
    +actor_rollout_ref.rollout.agent.agent_loop_manager_class=reward_serve_verl.training.LoopManager

``compute_score`` raises for undecided samples, and verl stores no trajectory for them. Synchronous
training continues with the rest of the group; in asynchronous training, verl's own sampler replaces
the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
import transfer_queue
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils.tensordict_utils import assign_non_tensor_data, get

from reward_serve.client import ScoringError
from reward_serve.client.outcomes import check_on_failure, is_refusal
from reward_serve.client.rows import PROBE_RESPONSE, RefusedRowError
from reward_serve.schema import Status, failure
from reward_serve_verl.scoring import CONVERSATION, client_for, is_judged, warn_of_timeout

_PROBE_S = 5.0


class LoopManager(AgentLoopManagerTQ):  # type: ignore[misc]  # verl is untyped
    """verl's agent loop manager; its validation samples are marked for the reward manager."""

    def generate_sequences(self, prompts: Any) -> None:
        """As verl's, which would generate for ever what the service then refuses.

        Raises:
            RefusedRowError: the service refuses all samples, as for a wrong key.
        """
        settings = self.config.reward.custom_reward_function.get("reward_kwargs") or {}
        once = {"on_failure": "none", "max_attempts": 1, "timeout_s": _PROBE_S}
        probe = {"response": PROBE_RESPONSE, "reference": "18"}
        result = client_for({}, {**settings, **once}).score(probe)
        if is_refusal(result):
            raise RefusedRowError(f"no sample can have a verdict: {result.reason}")
        if get(prompts, "validate", False):
            assign_non_tensor_data(prompts, "judge_validates", True)
        super().generate_sequences(prompts)


class DecidedRewardManager(DAPORewardManager):  # type: ignore[misc]  # verl is untyped
    """verl's reward manager with DAPO's penalty for length, if ``reward.reward_kwargs`` sets one.

    It is for trainers that can leave samples out, and hands over what agent loops add to a sample.
    If a loop gave a trajectory several outputs, they are judged together, as the assistant's turns
    of one conversation, and verl trains each on the score; without a verdict it stores none.

    Raises:
        ValueError: a setting in ``reward_kwargs`` is unknown or invalid, or ``trainer.use_v1`` is
            false and ``on_failure`` is not a number.
    """

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, **others: Any) -> None:
        function = config.reward.custom_reward_function
        settings = function.get("reward_kwargs") or {}
        client_for({}, settings)
        is_judged("", settings)  # checks the patterns
        on_failure = check_on_failure(settings.get("on_failure"))
        if not config.trainer.use_v1 and not isinstance(on_failure, float):
            raise ValueError(
                f"trainer.use_v1=false with on_failure={on_failure or 'rule'}: that trainer stops "
                "at the first undecided sample; set trainer.use_v1=true, or a reward for undecided "
                "samples: +reward.custom_reward_function.reward_kwargs.on_failure=0.0"
            )
        warn_of_timeout(config)
        super().__init__(config, tokenizer, compute_score, **others)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """As verl's; ``extra_info`` then has the sample's run, step and key.

        Raises:
            ScoringError: the sample is undecided, or has no token to store a score at.
        """
        row = data[-1].non_tensor_batch
        if 0 in data.non_tensor_batch.get("response_len", ()):
            reason = "response: has no tokens, at the last of which verl stores a score"
            raise ScoringError(failure(Status.INVALID, reason))
        run = self.config.trainer.experiment_name + ("/eval" if row.get("judge_validates") else "")
        keys: dict[str, Any] = {"run": run}
        if "session_id" in row:  # by the V1 trainer
            keys |= {"step": int(row["global_steps"]), "sample": "{uid}_{session_id}".format(**row)}
        keys = {"judge_group": row.get("uid"), "judge_metadata": keys}
        fields = self._conversation(data) if len(data) > 1 else {}
        row["extra_info"] |= {**fields, **(row.get("tool_extra_fields") or {}), **keys}
        output: dict[str, Any] = await super().run_single(_last_output(data))
        return output | {"reward_score": float(output["reward_score"])}  # a penalty is a tensor

    def _conversation(self, data: Any) -> dict[str, Any]:
        lengths = data.non_tensor_batch["response_len"]
        outputs = zip(data.batch["responses"], lengths, strict=True)
        texts = [
            self.tokenizer.decode(tokens[:length], skip_special_tokens=True)
            for tokens, length in outputs
        ]
        turns = [{"role": "assistant", "content": text} for text in texts]
        prompt = list(data[-1].non_tensor_batch.get("raw_prompt", ()))
        return {CONVERSATION: {"messages": [*prompt, *turns], "tools": []}}


def _last_output(data: Any) -> Any:
    """The last output without padding, of which verl would take its length from a longer one's."""
    last = data[-1:]
    if len(data) == 1:
        return last
    responses = last.batch["responses"][:, : last.non_tensor_batch["response_len"][0]]
    tensors = {"responses": responses, "attention_mask": torch.ones_like(responses)}
    return DataProto.from_dict(tensors=tensors, non_tensors=last.non_tensor_batch)


class DecidedReplayBuffer(ReplayBuffer):  # type: ignore[misc]  # verl is untyped
    """verl's synchronous replay buffer, without groups that have only one decided sample.

    Such a sample would be trained on its raw reward: for a group of one, verl uses mean 0 and
    standard deviation 1.

    Raises:
        ValueError: the trainer is asynchronous; verl's own buffer replaces groups there.
        RuntimeError: in ``sample``, no group of the batch has two decided samples.
    """

    def __init__(self, trainer_mode: str, *args: Any, **settings: Any) -> None:
        if trainer_mode != "sync":
            raise ValueError(
                f"trainer.v1.trainer_mode={trainer_mode}: verl itself replaces groups with "
                "undecided samples; leave trainer.v1.sampler.custom_sampler unset"
            )
        super().__init__(trainer_mode, *args, **settings)

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        selected: list[str]
        selected, rows, steps = super()._select_prompt_uids(
            partition_id, sampleable_keys, batch_size
        )
        if partition_id == "val":
            return selected, rows, steps
        lone = self.failure_keys[partition_id] & _of_one_session(rows)
        dropped = [key for key in rows if _uid(key) in lone.intersection(selected)]
        if dropped:
            transfer_queue.kv_clear(partition_id=partition_id, keys=dropped)
        kept = {key: tag for key, tag in rows.items() if key not in dropped}
        if not any(_uid(key) in selected for key in kept):
            raise RuntimeError(
                f"nothing to train on: all {len(selected)} prompts have fewer than two decided "
                "samples; fix the reward service (the reasons are in the log of verl's agent loop "
                "workers), then resume from the last checkpoint"
            )
        return selected, kept, steps


def _uid(key: str) -> str:
    return key.split("_")[0]


def _of_one_session(keys: Iterable[str]) -> set[str]:
    counts = Counter(_uid(session) for session in {key.rpartition("_")[0] for key in keys})
    return {uid for uid, count in counts.items() if count == 1}
