"""A fake engine, and a replica that uses it.

It reads the two numbers of ``questions.prose`` from its prompt and returns the right label after a
service time, in one of a number of slots; its capacity is slots / service time. Everything else is
the real service: client, HTTP, routing, admission, judge.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import (
    EngineError,
    FrozenModel,
    LabelOutput,
    Prompt,
    Sampling,
    TextOutput,
)
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import Metrics
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import Usage

NAME = "stand-in"
DELAY_S = 0.3

_NUMBERS = re.compile(r"It comes to (\d+) in all\b.*^Reference: (\d+)\b", re.DOTALL | re.MULTILINE)
_LIKELY, _UNLIKELY = math.log(0.9), math.log(0.1)

Fault = Literal[
    "delay", "exception", "bug", "cancelled", "silent", "nan", "garbage", "planted", "truncated"
]

_ANY: dict[Fault, float] = {
    "delay": 1.0,
    "exception": 1.0,
    "bug": 1.0,
    "cancelled": 1.0,
    "silent": 0.1,  # each lasts until its deadline
}
LABEL: dict[Fault, float] = {**_ANY, "nan": 1.0}
"""Fault to its weight, in label mode."""
GENERATE: dict[Fault, float] = {**_ANY, "garbage": 1.0, "planted": 1.0, "truncated": 1.0}
"""Fault to its weight, in generate mode."""


@dataclass
class Faults:
    """Draws a fault for each engine call.

    Any call: ``delay`` answers late, ``exception`` raises the engine's own error, ``bug`` another
    one, ``cancelled`` drops the call, ``silent`` never answers. Label mode: ``nan`` probabilities.
    Generate mode: ``garbage`` has no verdict, ``planted`` has a valid verdict before an invalid
    last one, ``truncated`` is cut off after a verdict.

    Attributes:
        rate: share of calls that fail.
        counts: calls and faults so far.
    """

    rate: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rng = Random(0)

    def draw(self, weights: dict[Fault, float]) -> Fault | None:
        """The fault of the next call, or None."""
        self.counts["calls"] += 1
        if self._rng.random() >= self.rate:
            return None
        (fault,) = self._rng.choices(list(weights), list(weights.values()))
        self.counts[fault] += 1
        return fault


class FakeEngine(FrozenModel):
    """An engine in name only, which is asked for labels."""

    max_model_len = 8192
    tokenizer = None

    def describe(self) -> dict[str, str]:
        """Weights and engine in name only."""
        return {"weights": NAME, "engine": NAME}

    async def chat(self, body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """Not needed here."""
        raise NotImplementedError

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Not asked for."""
        raise NotImplementedError


class StandIn(FakeEngine):
    """A fake engine of known capacity.

    Args:
        slots: concurrent calls.
        service_s: seconds per call.
        faults: draws the faults to inject.
    """

    def __init__(self, slots: int, service_s: float, faults: Faults) -> None:
        self.faults = faults
        self._slots = asyncio.Semaphore(slots)
        self._service_s = service_s

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """Give the right label probability 0.9.

        Raises:
            EngineError: an injected fault.
        """
        fault = self.faults.draw(LABEL)
        right = await self._served(prompt, fault)
        logprobs = {label: _LIKELY if label == right else _UNLIKELY for label in labels}
        if fault == "nan":
            logprobs = dict.fromkeys(labels, math.nan)
        return LabelOutput(logprobs, Usage(prompt_tokens=len(text_of(prompt)), completion_tokens=1))

    async def generate(self, prompt: Prompt, sampling: Sampling) -> TextOutput:
        """Write the right verdict.

        Raises:
            EngineError: an injected fault.
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
        usage = Usage(prompt_tokens=len(text_of(prompt)), completion_tokens=len(text))
        return TextOutput(text, fault == "truncated", usage)

    async def _served(self, prompt: Prompt, fault: Fault | None) -> str:
        """The right label, after holding a slot for the service time."""
        async with self._slots:
            await asyncio.sleep(self._service_s)
        if fault == "delay":
            await asyncio.sleep(DELAY_S)
        elif fault == "silent":
            await asyncio.Event().wait()
        elif fault == "exception":
            raise EngineError("an injected failure")
        elif fault == "bug":
            raise ZeroDivisionError("an injected bug")
        elif fault == "cancelled":
            raise asyncio.CancelledError
        match = _NUMBERS.search(text_of(prompt))
        if match is None:
            raise EngineError(f"the stand-in found no numbers in {text_of(prompt)[-200:]!r}")
        return str(int(match[1] == match[2]))


def text_of(prompt: Prompt) -> str:
    """The messages' text."""
    return "\n".join(turn["content"] for turn in prompt.messages)


class StandInReplica(Scorer):
    """A replica with a judge on the fake engine.

    Args:
        slots: concurrent calls of the engine, and concurrent items of the replica.
        service_s: seconds per call of the engine.
        fault_rate: share of engine calls that fail.
    """

    def __init__(self, slots: int, service_s: float, fault_rate: float = 0.0) -> None:
        self._engine = StandIn(slots, service_s, Faults(fault_rate))
        fields: dict[str, Any] = {
            "judge": {"rules_first": False, "audit_rate": 0.0},
            "cache": {"enabled": False},
        }
        config = JudgeModel(name=NAME, kind="judge", max_concurrent_items=slots, **fields)
        admission = Admission(slots, config.max_queued_items)
        self._metrics = Metrics(lambda: admission.items, dict)
        super().__init__(NAME, Judge(config, self._engine), admission, observers=[self._metrics])

    async def check_health(self) -> None:
        """Export the counts, as often as Serve asks."""
        self._metrics.flush()

    async def describe(self) -> dict[str, Any]:
        """Process id, items in flight and faults injected so far."""
        counts = dict(self._engine.faults.counts)
        return {"name": NAME, "pid": os.getpid(), "items": self._admission.items, "faults": counts}
