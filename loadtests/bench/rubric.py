"""Rubric: eight criteria on one engine against one criterion, on a response of 1,000 tokens.

The base model that the bundled judge is trained on answers in label mode, through ``RubricJudge``
and without its cache. Each round asks about responses that are new to the engine, both ways in
turn. ``prefix_reuse`` is the cached share of the prompt tokens of all criteria but the first,
including the criteria's own texts, which cannot be shared.
"""

from __future__ import annotations

import asyncio
from random import Random
from statistics import fmean
from typing import Any

from deployments.local import console
from loadtests.bench.common import alternated, by, relative, spread
from reward_serve.config.models import RubricModel
from reward_serve.engines.vllm import VllmEngine
from reward_serve.reward_models.rubric import RubricJudge
from reward_serve.schema import ScoreRequest, Usage

CRITERIA = 8
RESPONSE_TOKENS = 1_000
_ITEMS = 4  # per round, one after another
_ASKS = ("true", "clear", "brief", "polite", "complete", "about the question", "new", "in English")


def run(rounds: int) -> dict[str, Any]:
    """Items per second both ways, the ratio of their times, and the reuse of the shared prefix."""
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
    used: dict[str, list[Usage]] = {"1": [], str(CRITERIA): []}

    def asked(count: str) -> list[ScoreRequest]:
        return [request(engine.tokenizer, drawn, int(count)) for _ in range(_ITEMS)]

    rates = await alternated(
        {count: by(judge, fields) for count, fields in used.items()}, rounds, asked
    )
    engine.close()
    first = fmean(usage.prompt_tokens for usage in used["1"])  # criteria differ by a few tokens
    cached = {count: fmean(usage.cached_tokens for usage in used[count]) for count in used}
    return {
        "ratio": 1 / relative(rates, "1")[str(CRITERIA)],
        "prefix_reuse": (cached[str(CRITERIA)] - cached["1"]) / ((CRITERIA - 1) * first),
        "prompt_tokens": first,
        "items_per_s": {count: spread(per_round) for count, per_round in rates.items()},
    }
