"""Requests, prompts, alternation and statistics shared by the benchmarks."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from deployments.local import console
from reward_serve.client import Client
from reward_serve.client.transport import ServiceTransport
from reward_serve.engines.base import Prompt, Tokenizer
from reward_serve.prompts.rendering import Renderer
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import ScoreResult, Status, Usage
from reward_serve.templates import load_template
from reward_serve_answers import final_answer

Request = dict[str, Any]
Way = Callable[[list[Any]], Awaitable[int]]
"""Sends what it is given and returns the number of verdicts."""

NO_CACHE = {"cache": False}
"""Request options that bypass the verdict cache."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The file's labelled rows."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_requests(path: Path) -> list[Request]:
    """The file's responses with their references, as requests."""
    rows = read_rows(path)
    return [{"response": row["response"], "reference": row["reference"]} for row in rows]


def marked(requests: Iterable[Request], mark: str) -> list[Request]:
    """Put a mark before each response, so that it is new to every cache."""
    return [{**request, "response": f"({mark}) {request['response']}"} for request in requests]


class PromptRenderer:
    """Renders ``final_answer`` prompts as the service does.

    Args:
        tokenizer: the engine's tokenizer.
        response_tokens: tokens of a response to show; default: the template's.
    """

    def __init__(self, tokenizer: Tokenizer, response_tokens: int | None = None) -> None:
        self._template = load_template("final_answer")
        self._budget = response_tokens or self._template.response_tokens
        self._renderer = Renderer(tokenizer, max(2048, 2 * self._budget))
        self.label_ids = list(self._renderer.label_ids(self._template).values())

    def ids(self, request: Request) -> list[int]:
        """A request's prompt as token ids."""
        return self.prompt(request).token_ids

    def prompt(self, request: Request) -> Prompt:
        """A request's prompt."""
        fields = {**request, "reference": final_answer(request["reference"]), "question": ""}
        return self._renderer.render(
            self._template, fields, "label", response_tokens=self._budget, reserve_tokens=1
        )


async def in_batches(
    client: Client | ServiceTransport, requests: Sequence[Request], size: int
) -> list[ScoreResult]:
    """The results of calls of ``size`` requests, all at once; in order."""
    batches = [list(requests[start : start + size]) for start in range(0, len(requests), size)]
    return [*chain(*await asyncio.gather(*map(client.ascore_batch, batches)))]


async def timed(call: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Await a call; return its duration in seconds and its result."""
    began = time.perf_counter()
    answer = await call()
    return time.perf_counter() - began, answer


def by(judge: Judge, used: list[Usage]) -> Way:
    """Scores requests one after another, and keeps their usage."""

    async def scored(requests: list[Any]) -> int:
        results = [await judge.score(request) for request in requests]
        used.extend(result.usage for result in results)
        return sum(result.status is Status.OK for result in results)

    return scored


async def alternated(
    ways: Mapping[str, Way], rounds: int, asked: Callable[[str], list[Any]]
) -> dict[str, list[float]]:
    """Verdicts per second of each way in each round, after one that is not counted.

    Args:
        ways: take turns, in a new random order each round, so that none is always first.
        rounds: number of rounds.
        asked: makes what a way is to send, new to every cache.

    Raises:
        RuntimeError: a verdict is missing.
    """
    rates: dict[str, list[float]] = {name: [] for name in ways}
    drawn = Random(0)
    for number in range(-1, rounds):
        for name in drawn.sample(list(ways), len(ways)):
            sent = asked(name)
            with console.status(f"{name}, {number + 1} of {rounds}"):
                seconds, answered = await timed(lambda w=ways[name], s=sent: w(s))  # type: ignore[misc]
            if answered != len(sent):
                raise RuntimeError(f"{name}: {answered} verdicts of {len(sent)}")
            if number >= 0:
                rates[name].append(len(sent) / seconds)
    return rates


def relative(rates: Mapping[str, Sequence[float]], base: str) -> dict[str, float]:
    """Each other way's median rate relative to ``base``'s, round by round."""
    return {
        name: statistics.median(a / b for a, b in zip(per_round, rates[base], strict=True))
        for name, per_round in rates.items()
        if name != base
    }


async def load(
    ask: Callable[[int], Awaitable[Any]], calls: int, concurrency: int
) -> dict[str, Any]:
    """Run a closed loop of ``concurrency`` callers; return calls per second and latencies."""
    waits: list[float] = []
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            seconds, _ = await timed(lambda n=number: ask(n))  # type: ignore[misc]
            waits.append(1000 * seconds)

    seconds, _ = await timed(lambda: asyncio.gather(*(caller() for _ in range(concurrency))))
    cuts = statistics.quantiles(waits, n=100)
    return {"per_s": calls / seconds, "p50_ms": cuts[49], "p99_ms": cuts[98]}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Median, minimum and maximum."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def spreads(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, dict[str, Any]]:
    """The spread of each figure over the rounds of each way."""
    return {
        name: {key: spread([figures[key] for figures in per_round]) for key in per_round[0]}
        for name, per_round in runs.items()
    }
