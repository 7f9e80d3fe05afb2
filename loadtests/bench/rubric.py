"""Rubric: eight criteria on one engine against one criterion, on a response of 1,000 tokens.

The base model that the bundled judge is trained on answers in label mode, through ``RubricJudge``
and without its cache. Each round asks about responses that are new to the engine, both ways in
turn. ``prefix_reuse`` is the cached share of the prompt tokens of all criteria but the first,
including the criteria's own texts, which cannot be shared.
"""

from __future__ import annotations

import asyncio
import statistics
from random import Random
from typing import Any

from deployments.local import console
from loadtests.bench.common import spread, timed
from reward_serve.config.models import RubricModel
from reward_serve.engines.vllm import VllmEngine
from reward_serve.reward_models.rubric import RubricJudge
from reward_serve.schema import ScoreRequest, ScoreResult, Status

CRITERIA = 8
RESPONSE_TOKENS = 1_000
_ITEMS = 4  # per round, one after another
_ASKS = ("true", "clear", "brief", "polite", "complete", "about the question", "new", "in English")


def run(rounds: int) -> dict[str, Any]:
    """Seconds per item both ways, their ratio, and the reuse of the shared prefix."""
    return asyncio.run(compare(rounds))


def criteria(count: int) -> list[dict[str, str]]:
    """The first criteria of the benchmark."""
    return [{"name": f"c{n}", "text": f"The response is {_ASKS[n]}."} for n in range(count)]


def request(tokenizer: Any, drawn: Random, count: int) -> ScoreRequest:
    """A request with a response that is new to every cache."""
    words = ("value", "water", "number", "river", "answer", "reason", "paper", "garden")
    text = " ".join(drawn.choice(words) for _ in range(2 * RESPONSE_TOKENS))
    _, starts = tokenizer.encode_plain(text)
    response = text[: starts[RESPONSE_TOKENS]]
    body = {"response": response, "question": "What does it say?", "rubric": criteria(count)}
    return ScoreRequest.model_validate({**body, "timeout_s": 600.0})


async def compare(rounds: int) -> dict[str, Any]:
    """The same, on an engine that is started for it."""
    config = RubricModel.model_validate(
        {
            "name": "rubric",
            "kind": "rubric",
            "engine": {"adapter": "none", "device": "cpu", "cpu_kv_cache_gib": 0.5},
            "cache": {"enabled": False},
        }
    )
    with console.status("rubric: starting the engine"):
        engine = await VllmEngine.start(config.engine, num_cpus=2, num_gpus=0)
    judge, drawn = RubricJudge(config, engine), Random(0)
    seconds: dict[int, list[float]] = {1: [], CRITERIA: []}
    used = {1: [0, 0], CRITERIA: [0, 0]}
    for number in range(-1, rounds):  # the first is not counted
        for count in drawn.sample([1, CRITERIA], 2):
            asked = [request(engine.tokenizer, drawn, count) for _ in range(_ITEMS)]
            with console.status(f"rubric: {count} criteria, {number + 1} of {rounds}"):
                took, results = await timed(lambda a=asked: _in_turn(judge, a))  # type: ignore[misc]
            if number < 0:
                continue
            seconds[count].append(took / _ITEMS)
            used[count][0] += sum(result.usage.prompt_tokens for result in results)
            used[count][1] += sum(result.usage.cached_tokens for result in results)
    engine.close()
    items = _ITEMS * rounds
    first = used[1][0] / items  # a prompt; criteria differ by a few tokens
    cached = (used[CRITERIA][1] - used[1][1]) / items
    return {
        "ratio": statistics.median(seconds[CRITERIA]) / statistics.median(seconds[1]),
        "prefix_reuse": cached / ((CRITERIA - 1) * first),
        "prompt_tokens": first,
        "seconds_per_item": {str(count): spread(each) for count, each in seconds.items()},
    }


async def _in_turn(judge: RubricJudge, requests: list[ScoreRequest]) -> list[ScoreResult]:
    results = [await judge.score(each) for each in requests]
    failed = [result.reason for result in results if result.status is not Status.OK]
    if failed:
        raise RuntimeError(f"a criterion failed: {failed[0]}")
    return results
