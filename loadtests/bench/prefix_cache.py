"""A stand-in for an engine: it models a prefix cache and the time that prompts take.

Eight replicas of a real engine do not fit two cores. This one sleeps for its time, so that busy
cores change the figures little. Everything else is the real service.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import Usage

BLOCK_TOKENS = 16
_TOKEN_CHARACTERS = 3
_BLOCKS = 4096  # of 16 tokens: a cache of 65,536 tokens
_TOKENS_PER_S = 2_000
_VERDICT = "The values agree.\nVERDICT: 1"


class PrefixCache:
    """The blocks of tokens that an engine keeps, the least recently used dropped first.

    Args:
        blocks: how many it keeps.
    """

    def __init__(self, blocks: int) -> None:
        self._most = blocks
        self._kept: OrderedDict[int, None] = OrderedDict()

    def add(self, tokens: Sequence[Any]) -> int:
        """Add a prompt; returns how many of its tokens were kept before it, in whole blocks.

        The last token is always computed.
        """
        cached, key, hit = 0, 0, True
        for end in range(BLOCK_TOKENS, len(tokens) + 1, BLOCK_TOKENS):
            key = hash((key, tuple(tokens[end - BLOCK_TOKENS : end])))
            hit = hit and key in self._kept and end < len(tokens)
            cached += BLOCK_TOKENS if hit else 0
            self._kept[key] = None
            self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return cached


class PrefixEngine:
    """A fake engine whose prompts are computed one after another, without their cached start."""

    max_model_len = 8192
    tokenizer = None

    def __init__(self) -> None:
        self._cache = PrefixCache(_BLOCKS)
        self._free_at = 0.0

    def describe(self) -> dict[str, str]:
        """Weights and engine in name only."""
        return {"weights": "stand-in", "engine": "stand-in"}

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """Give the last label probability 0.9."""
        usage = await self._computed(prompt, 1)
        return LabelOutput(dict.fromkeys(labels, math.log(0.1)) | {labels[-1]: -0.1}, usage)

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Write a verdict."""
        written = len(_VERDICT) // _TOKEN_CHARACTERS
        return TextOutput(_VERDICT, False, await self._computed(prompt, written))

    async def fatal_error(self) -> str | None:
        """None."""
        return None

    def close(self) -> None:
        """Do nothing."""

    async def _computed(self, prompt: Prompt, written: int) -> Usage:
        text = "\n".join(turn["content"] for turn in prompt.messages)
        size = _TOKEN_CHARACTERS
        tokens = [text[at : at + size] for at in range(0, len(text), size)]
        cached = self._cache.add(tokens)
        now = asyncio.get_running_loop().time()
        work_s = (len(tokens) - cached + written) / _TOKENS_PER_S
        self._free_at = max(self._free_at, now) + work_s
        await asyncio.sleep(self._free_at - now)
        return Usage(prompt_tokens=len(tokens), cached_tokens=cached, completion_tokens=written)


class PrefixReplica(Scorer):
    """A replica with a judge on a ``PrefixEngine``.

    Args:
        model: a ``JudgeModel`` as plain data.
    """

    def __init__(self, model: dict[str, Any]) -> None:
        config = JudgeModel.model_validate(model)
        admission = Admission(config.max_concurrent_items or 1, config.max_queued_items)
        super().__init__(config.name, Judge(config, PrefixEngine()), admission)

    async def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"name": "judge"}
