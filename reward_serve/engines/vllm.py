"""A language model on vLLM's ``AsyncLLM`` that scores labels or generates text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from reward_serve.config.engine import EngineConfig
from reward_serve.engines.base import LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.engines.vllm_runner import VllmRunner
from reward_serve.schema import Usage


class VllmEngine(VllmRunner):
    """One ``AsyncLLM`` that scores labels and generates text; create it with ``start``."""

    runner: ClassVar[str] = "generate"

    def __init__(self, llm: Any, config: EngineConfig, timings_s: dict[str, float]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        super().__init__(llm, config, timings_s)
        self._params = SamplingParams
        self._final_only = RequestOutputKind.FINAL_ONLY
        self._cumulative = RequestOutputKind.CUMULATIVE

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """The log-probability of each label as the next token."""
        ids = {label: prompt.label_ids[label] for label in labels}
        # Never request top-k logprobs on this engine: in a step with label requests, vLLM
        # overwrites them.
        params = self._params(
            max_tokens=1,
            temperature=0.0,
            logprob_token_ids=list(ids.values()),
            detokenize=False,
            output_kind=self._final_only,
            skip_clone=True,
        )
        output = await self._generated(prompt, params)
        found = output.outputs[0].logprobs[0]
        return LabelOutput({label: found[i].logprob for label, i in ids.items()}, _usage(output))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Generate the assistant's reply."""
        params = self._params(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=self._config.seed + sampling.sample,
            thinking_token_budget=sampling.thinking_tokens,
            output_kind=self._cumulative,  # each step counts as progress
        )
        output = await self._generated(prompt, params)
        written = output.outputs[0]
        return TextOutput(written.text, written.finish_reason == "length", _usage(output))

    async def _probe(self) -> None:
        await self.label_logprobs(Prompt((), [0], {"": 0}), [""])

    async def _generated(self, prompt: Prompt, params: Any) -> Any:
        tokens = self._input(prompt.token_ids)
        return await self._run(self._llm.generate(tokens, params, str(next(self._numbers))))


def _usage(output: Any) -> Usage:
    return Usage(
        prompt_tokens=len(output.prompt_token_ids),
        cached_tokens=output.num_cached_tokens or 0,
        completion_tokens=len(output.outputs[0].token_ids),
    )
