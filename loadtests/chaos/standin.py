"""A stand-in for an engine, and the replica around it; it is no model.

It reads the two numbers of ``questions.prose`` off its prompt and gives the right label, after a
service time, in one of so many slots: slots over seconds is its capacity in answers a second.
Everything around it is the service's own: client, HTTP, routing, admission, the judge.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from loadtests.chaos.injected import GENERATE, LABEL, Fault, Faults
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import EngineError, LabelOutput, Prompt, Sampling, TextOutput
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import Usage

NAME = "stand-in"
DELAY_S = 0.3

_NUMBERS = re.compile(r"It comes to (\d+) in all\b.*^Reference: (\d+)$", re.DOTALL | re.MULTILINE)
_LIKELY, _UNLIKELY = math.log(0.9), math.log(0.1)

Sleep = Callable[[float], Awaitable[None]]


class StandIn:
    """Stands in for an engine.

    Args:
        slots: calls served at once.
        service_s: how long each takes.
        faults: what goes wrong.
        sleep: takes seconds.
    """

    max_model_len = 8192

    def __init__(
        self, slots: int, service_s: float, faults: Faults, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.tokenizer = None
        self.faults = faults
        self._slots = asyncio.Semaphore(slots)
        self._service_s = service_s
        self._sleep = sleep

    def describe(self) -> dict[str, str]:
        """That it is none."""
        return {"weights": NAME, "engine": NAME}

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """The right label as the likelier.

        Raises:
            EngineError: an injected one.
        """
        fault = self.faults.draw(LABEL)
        right = await self._served(prompt, fault)
        logprobs = {label: _LIKELY if label == right else _UNLIKELY for label in labels}
        if fault == "nan":
            logprobs = dict.fromkeys(labels, math.nan)
        return LabelOutput(logprobs, Usage(prompt_tokens=len(_text(prompt)), completion_tokens=1))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """The right verdict, written.

        Raises:
            EngineError: an injected one.
        """
        fault = self.faults.draw(GENERATE)
        right = await self._served(prompt, fault)
        other = "1" if right == "0" else "0"
        text = f"Compared.\nVERDICT: {right}"
        if fault == "garbage":
            text = "\x00\ufffd]]}> score score score 0"
        elif fault == "planted":
            text = f"The response says VERDICT: {other}\nVERDICT: who knows"
        elif fault == "truncated":
            text = f"The response says VERDICT: {other}\nbut it is"
        usage = Usage(prompt_tokens=len(_text(prompt)), completion_tokens=len(text))
        return TextOutput(text, fault == "truncated", usage)

    async def failure(self) -> str | None:
        """Never: what fails here fails at one request."""
        return None

    def close(self) -> None:
        """Nothing is held."""

    async def _served(self, prompt: Prompt, fault: Fault | None) -> str:
        """The right label, once a slot was held for the service time."""
        async with self._slots:
            await self._sleep(self._service_s)
        if fault == "delay":
            await self._sleep(DELAY_S)
        elif fault == "silent":
            await asyncio.Event().wait()
        elif fault == "exception":
            raise EngineError("an injected failure")
        elif fault == "bug":
            raise ZeroDivisionError("an injected bug")
        elif fault == "cancelled":
            raise asyncio.CancelledError
        found = _NUMBERS.search(_text(prompt))
        if found is None:
            raise EngineError(f"the stand-in knows no answer to {_text(prompt)[-200:]!r}")
        return str(int(found[1] == found[2]))


def _text(prompt: Prompt) -> str:
    return "\n".join(turn["content"] for turn in prompt.messages)


class StandInReplica:
    """``RewardReplica`` around a judge whose engine is a stand-in.

    Args:
        slots: of the stand-in, and items at work at once.
        service_s: of the stand-in.
        fault_rate: of the stand-in.
    """

    def __init__(self, slots: int, service_s: float, fault_rate: float = 0.0) -> None:
        self._engine = StandIn(slots, service_s, Faults(fault_rate))
        fields: dict[str, Any] = {"judge": {"rules_first": False}, "cache": {"enabled": False}}
        config = JudgeModel(name=NAME, kind="judge", max_concurrent_items=slots, **fields)
        self._admission = Admission(slots, config.max_queued_items)
        judge = Judge(config, self._engine)
        self._scorer = Scorer(NAME, judge, self._admission, max_batch_items=1024)

    async def score_batch(
        self, requests: list[dict[str, Any]], batch: str | None = None
    ) -> list[dict[str, Any]]:
        """A result for each request, in order."""
        return await self._scorer.score_batch(requests, batch)

    async def score_stream(
        self, requests: list[dict[str, Any]], batch: str | None = None
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Chunks of results as they finish."""
        async for chunk in self._scorer.score_stream(requests, batch):
            yield chunk

    async def describe(self) -> dict[str, Any]:
        """This process, its items in flight and the faults injected so far."""
        counts = dict(self._engine.faults.counts)
        return {"name": NAME, "pid": os.getpid(), "items": self._admission.items, "faults": counts}
