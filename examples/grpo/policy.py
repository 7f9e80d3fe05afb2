"""The policy under training: a LoRA adapter behind a Tinker endpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import tinker

from examples.grpo.endpoint import API_KEY, Endpoint
from examples.grpo.engine import RANK
from examples.grpo.samples import Group

logger = logging.getLogger(__name__)


class Policy:
    """A training client of an endpoint.

    It resumes from the saved ``state``, with or without its optimiser; None starts a new adapter.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        state: str | None = None,
        *,
        optimizer: bool = True,
    ) -> None:
        def client() -> tuple[Any, Any, Any]:
            service = tinker.ServiceClient(base_url=endpoint.url, api_key=API_KEY)
            if state is None:
                made = service.create_lora_training_client(model, rank=RANK, seed=0)
            elif optimizer:
                made = service.create_training_client_from_state_with_optimizer(state)
            else:
                made = service.create_training_client_from_state(state)
            return service, made, service.create_rest_client()

        self._endpoint = endpoint
        self._service, self._client, self._rest = endpoint.wait(client)

    def close(self) -> None:
        """Close the client's session, which would warn forever about a lost endpoint."""
        self._service.holder.close()

    def train(self, groups: Sequence[Group], learning_rate: float) -> dict[str, float]:
        """One optimiser step of PPO's clipped loss on samples with an advantage.

        Returns:
            The engine's metrics; empty if there is nothing to train on.
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
        """One optimiser step of cross-entropy on (prompt, response) pairs of token ids."""
        data = [_datum(prompt, response, None, None) for prompt, response in pairs]
        return self._step(data, "cross_entropy", learning_rate)

    def _step(self, data: list[tinker.Datum], loss: Any, learning_rate: float) -> dict[str, float]:
        def step() -> dict[str, float]:
            passed = self._client.forward_backward(data, loss)
            stepped = self._client.optim_step(tinker.AdamParams(learning_rate=learning_rate))
            passed.result()
            return dict(stepped.result().metrics or {})

        return self._endpoint.wait(step)

    def save_for_sampler(self, name: str) -> str:
        """Save weights for sampling; return their path."""
        saved = self._endpoint.wait(lambda: self._client.save_weights_for_sampler(name).result())
        owner, _, name = saved.path.rpartition("/")
        # Deleting needs this part of the path, which SkyRL's engine omits.
        return f"{owner.removesuffix('/sampler_weights')}/sampler_weights/{name}"

    def save_state(self, name: str) -> str:
        """Save weights and optimiser; return their path."""
        return str(self._endpoint.wait(lambda: self._client.save_state(name).result()).path)

    def delete(self, path: str) -> None:
        """Delete a checkpoint; failing to delete it is only a warning."""

        def delete() -> None:
            self._rest.delete_checkpoint_from_tinker_path(path).result()

        try:
            self._endpoint.wait(delete)
        except tinker.NotFoundError:
            pass
        except tinker.APIStatusError as error:
            logger.warning("could not delete %s: %s", path, error)


def _datum(
    prompt: list[int],
    response: list[int],
    logprobs: list[float] | None,
    advantage: float | None,
) -> tinker.Datum:
    """Next-token prediction over the response; prompt tokens have weight 0."""
    tokens, before = prompt + response, len(prompt) - 1
    inputs: dict[str, Any] = {
        "target_tokens": tokens[1:],
        "weights": [0.0] * before + [1.0] * len(response),
    }
    if logprobs is not None and advantage is not None:
        inputs["logprobs"] = [0.0] * before + logprobs
        inputs["advantages"] = [0.0] * before + [advantage] * len(response)
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)
