"""The policy under training: a LoRA adapter behind a Tinker endpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tinker

from examples.grpo.engine import API_KEY, RANK
from examples.grpo.samples import Group

TIMEOUT_S = 600.0


class Policy:
    """A training client of an endpoint.

    Args:
        url: the endpoint.
        model: the base model, as the endpoint knows it.
        state: path of a saved state, with its optimiser, to go on from; None begins anew.
        optimizer: whether to take the state's optimiser along.
        seed: of the adapter's first weights.
    """

    def __init__(
        self,
        url: str,
        model: Path,
        state: str | None = None,
        *,
        optimizer: bool = True,
        seed: int = 0,
    ) -> None:
        service = tinker.ServiceClient(base_url=url, api_key=API_KEY)
        if state is None:
            self._client = service.create_lora_training_client(str(model), rank=RANK, seed=seed)
        elif optimizer:
            self._client = service.create_training_client_from_state_with_optimizer(state)
        else:
            self._client = service.create_training_client_from_state(state)
        self._rest = service.create_rest_client()

    def train(self, groups: Sequence[Group], learning_rate: float) -> dict[str, float]:
        """One optimiser step of PPO's clipped loss on the samples that have an advantage.

        Returns:
            The engine's metrics; none where there is nothing to train on.
        """
        data = [
            _datum(group.prompt, sample.tokens, sample.logprobs, advantage)
            for group in groups
            for sample, advantage in zip(group.samples, group.advantages, strict=True)
            if advantage is not None
        ]
        return self._step(data, "ppo", learning_rate) if data else {}

    def imitate(
        self, pairs: Sequence[tuple[list[int], list[int]]], learning_rate: float
    ) -> dict[str, float]:
        """One optimiser step of cross-entropy on responses to prompts, in tokens."""
        data = [_datum(prompt, response, None, None) for prompt, response in pairs]
        return self._step(data, "cross_entropy", learning_rate)

    def _step(self, data: list[tinker.Datum], loss: Any, learning_rate: float) -> dict[str, float]:
        passed = self._client.forward_backward(data, loss)
        stepped = self._client.optim_step(tinker.AdamParams(learning_rate=learning_rate))
        passed.result(timeout=TIMEOUT_S)
        return dict(stepped.result(timeout=TIMEOUT_S).metrics or {})

    def save_for_sampler(self, name: str) -> str:
        """Save the weights to sample from; their path."""
        saved = self._client.save_weights_for_sampler(name).result(timeout=TIMEOUT_S)
        owner, _, name = saved.path.rpartition("/")
        # SkyRL's engine leaves out the part of the path that deleting asks for.
        return f"{owner.removesuffix('/sampler_weights')}/sampler_weights/{name}"

    def save_state(self, name: str) -> str:
        """Save weights and optimiser; their path."""
        return str(self._client.save_state(name).result(timeout=TIMEOUT_S).path)

    def delete(self, path: str) -> None:
        """Delete a checkpoint; one that is gone is no error."""
        with contextlib.suppress(tinker.NotFoundError):
            self._rest.delete_checkpoint_from_tinker_path(path).result(timeout=TIMEOUT_S)


def _datum(
    prompt: list[int],
    response: list[int],
    logprobs: list[float] | None,
    advantage: float | None,
) -> tinker.Datum:
    """Next-token prediction over the response; the prompt has no weight."""
    tokens, before = prompt + response, len(prompt) - 1
    inputs: dict[str, Any] = {
        "target_tokens": tokens[1:],
        "weights": [0.0] * before + [1.0] * len(response),
    }
    if logprobs is not None and advantage is not None:
        inputs["logprobs"] = [0.0] * before + logprobs
        inputs["advantages"] = [0.0] * before + [advantage] * len(response)
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)
