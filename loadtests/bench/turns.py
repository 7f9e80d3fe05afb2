"""Turns: what twenty cost against one score, and whether a likelihood follows a solution.

The base model that the bundled judge is trained on answers through ``Judge``, without its cache.
``cost``: conversations of twenty assistant turns, new to the engine, scored whole and with turns.
``likelihood``: labelled solutions, each line an assistant turn, the last left out since it states
the answer; beside transformers' own log-probabilities of the same tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from deployments.local import console
from loadtests.bench.common import alternated, by, read_rows, relative, spread
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import LabelOutput, Prompt
from reward_serve.engines.vllm import VllmEngine, locate
from reward_serve.reward_models.judge import Judge
from reward_serve.schema import ScoreRequest, Usage

TURNS = 20
_ROWS = 60  # of each label
_COMPARED = 60  # tokens beside transformers
_OUTPUT_WORDS = 80
_WORDS = ("value", "water", "number", "river", "answer", "reason", "paper", "garden")


def run(rounds: int, data: Path) -> dict[str, Any]:
    """The ratios of twenty turns to one score, and how solutions' likelihoods change."""
    return asyncio.run(_measured(rounds, read_rows(data)))


async def _measured(rounds: int, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    engine: dict[str, Any] = {"adapter": "none", "device": "cpu", "dtype": "float32"}
    engine |= {"max_model_len": 8192, "cpu_kv_cache_gib": 1.0}
    config = JudgeModel.model_validate(
        {"name": "judge", "kind": "judge", "engine": engine, "cache": {"enabled": False}}
    )
    with console.status("turns: starting the engine"):
        started = await VllmEngine.start(config.engine, num_cpus=2, num_gpus=0)
    judge = Judge(config, started)
    figures = {"cost": await _cost(judge, rounds)}
    asked = _noted(started)
    with console.status("turns: solutions' likelihoods"):
        figures["likelihood"] = await _states(judge, rows)
    started.close()
    figures["likelihood"]["beside_transformers"] = _beside(locate(config.engine), asked)
    return figures


def _conversation(drawn: Random) -> list[dict[str, Any]]:
    def text(words: int) -> str:
        return " ".join(drawn.choice(_WORDS) for _ in range(words))

    turns: list[dict[str, Any]] = [{"role": "user", "content": f"Find out about {text(12)}."}]
    for number in range(TURNS - 1):
        call = {"name": "search", "arguments": {"about": text(3), "page": number}}
        turns.append({"role": "assistant", "content": text(10), "tool_calls": [call]})
        turns.append({"role": "tool", "name": "search", "content": text(_OUTPUT_WORDS)})
    return [*turns, {"role": "assistant", "content": text(12)}]


async def _cost(judge: Judge, rounds: int) -> dict[str, Any]:
    used: dict[str, list[Usage]] = {"whole": [], "turns": []}

    drawn = Random(0)

    def asked(name: str) -> list[ScoreRequest]:
        body = {"messages": _conversation(drawn), "template": "task_done", "timeout_s": 600.0}
        return [ScoreRequest.model_validate({**body, "turns": name == "turns"})]

    rates = await alternated(
        {name: by(judge, fields) for name, fields in used.items()}, rounds, asked
    )
    computed = {
        name: fmean(usage.prompt_tokens - usage.cached_tokens for usage in usages)
        for name, usages in used.items()
    }
    return {
        "forward_tokens": computed,
        "ratio_of_tokens": computed["turns"] / computed["whole"],
        "ratio_of_times": 1 / relative(rates, "whole")["turns"],
        "items_per_s": {name: spread(per_round) for name, per_round in rates.items()},
    }


async def _states(judge: Judge, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The change of a reference's log-probability over a solution, in nats."""
    changes: dict[bool, list[float]] = {True: [], False: []}
    for row in Random(0).sample(rows, len(rows)):
        *lines, _ = [line for line in row["response"].splitlines() if line.strip()] or [""]
        kept = changes[bool(row["correct"])]
        if len(lines) < 2 or len(kept) == _ROWS:
            continue
        turns = [{"role": "assistant", "content": line} for line in lines]
        task = {"role": "user", "content": row["question"]}
        request = {"messages": [task, *turns], "reference": row["reference"], "turns": True}
        request |= {"template": "likelihood", "timeout_s": 600.0}
        result = await judge.score(ScoreRequest.model_validate(request))
        differences: Any = (result.details or {})["differences"]
        kept.append(sum(differences.values()))
    right, wrong = changes[True], changes[False]
    ranked = [(r > w) + (r == w) / 2 for r in right for w in wrong]
    return {
        "rows": {"right": len(right), "wrong": len(wrong)},
        "change_right": _interval(right),
        "change_wrong": _interval(wrong),
        "right_above_wrong": fmean(ranked),
    }


def _interval(values: Sequence[float]) -> dict[str, float]:
    """The mean and its 95% interval, by 2,000 bootstrap samples."""
    drawn = Random(0)
    means = sorted(fmean(drawn.choices(values, k=len(values))) for _ in range(2000))
    return {"mean": fmean(values), "low": means[50], "high": means[1949]}


def _noted(engine: VllmEngine) -> list[tuple[Prompt, LabelOutput]]:
    """Every later question to the engine, with its answer."""
    asked, ask = list[tuple[Prompt, LabelOutput]](), engine.label_logprobs

    async def noted(prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        asked.append((prompt, await ask(prompt, labels)))
        return asked[-1][1]

    engine.label_logprobs = noted  # type: ignore[method-assign]
    return asked


def _beside(weights: Any, asked: Sequence[tuple[Prompt, LabelOutput]]) -> dict[str, float]:
    """The largest difference from transformers, in nats a token."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
    apart = []
    for prompt, output in asked[:: max(1, len(asked) // _COMPARED)]:
        with torch.no_grad():
            logits = model(torch.tensor([prompt.token_ids])).logits[0, -1]
        expected = torch.log_softmax(logits, -1)
        apart += [abs(expected[i].item() - output.logprobs[k]) for k, i in prompt.label_ids.items()]
    return {"tokens": len(apart), "largest_difference": max(apart)}
