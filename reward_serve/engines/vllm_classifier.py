"""A sequence-classification model on vLLM's pooling runner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from reward_serve.config.engine import EngineConfig
from reward_serve.engines.base import LogitsOutput
from reward_serve.engines.checkpoint import CheckpointError, is_folder
from reward_serve.engines.vllm_runner import VllmRunner
from reward_serve.schema import Usage

_CLASSIFIER = "ForSequenceClassification"


class VllmClassifier(VllmRunner):
    """One ``AsyncLLM`` that returns logits; create it with ``start``."""

    runner: ClassVar[str] = "pooling"

    def __init__(self, llm: Any, config: EngineConfig, timings_s: dict[str, float]) -> None:
        from vllm import PoolingParams

        super().__init__(llm, config, timings_s)
        # Raw logits; the deployment's config says how they are normalised.
        self._pooling = PoolingParams(task="classify", use_activation=False)

    @classmethod
    async def start(cls, config: EngineConfig, num_cpus: float, num_gpus: float) -> Self:
        """Start an engine in child processes of this one.

        Raises:
            CheckpointError: the model cannot be served, or is not a classifier.
        """
        if is_folder(config.model):
            check_classifier(config.model)
        return await super().start(config, num_cpus, num_gpus)

    async def logits(self, token_ids: Sequence[int]) -> LogitsOutput:
        """One logit per label."""
        prompt, number = self._input(list(token_ids)), str(next(self._numbers))
        output = await self._run(self._llm.encode(prompt, self._pooling.clone(), number))
        usage = Usage(
            prompt_tokens=len(output.prompt_token_ids), cached_tokens=output.num_cached_tokens or 0
        )
        return LogitsOutput(output.outputs.data.float().flatten().tolist(), usage)

    async def _probe(self) -> None:
        await self.logits([0])


def check_classifier(model: str) -> None:
    """Check that a folder's model is a classifier; vLLM would add an untrained head to others.

    Raises:
        CheckpointError: it is not a classifier.
    """
    folder = Path(model).expanduser()
    try:
        architectures = json.loads((folder / "config.json").read_text(encoding="utf-8"))[
            "architectures"
        ]
    except (OSError, ValueError, LookupError):
        return  # check_checkpoint reports it
    if not any(_CLASSIFIER in name for name in architectures):
        raise CheckpointError(
            f"engine.model: {folder} is {', '.join(architectures)}, not a {_CLASSIFIER} model; "
            "serve a reward model, or use kind: judge"
        )
