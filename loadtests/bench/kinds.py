"""Kinds: the cost of a thousand verdicts of each kind of reward model.

All models are in one application and are measured in turn, over HTTP in batches, with responses
that are new to every cache. The classifier is the bundled base model with a randomly initialised
head: its scores mean nothing, but it costs what a classifier of this size does. The remote judge
calls vLLM's own server with the bundled judge's weights on the same two cores.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from deployments.local import console
from loadtests.bench.bare_engine import vllm_server
from loadtests.bench.common import Request, in_batches, marked, timed
from loadtests.cluster import served
from reward_serve import HttpRewardClient
from reward_serve_judge.weights import ADAPTER, prepare_bundled

_CORES = 2
_BATCH = 32
_SMALL = {"resources": {"num_cpus": 0.1}}
_RULE_REPEATS, _MODEL_REPEATS = 10, 1


def small_classifier(folder: Path) -> Path:
    """Save the bundled base model with a seeded head of one logit in ``folder``."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    base = prepare_bundled()
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run(requests: list[Request]) -> dict[str, Any]:
    """For each kind: verdicts per second, and core-seconds and tokens per thousand."""
    weights = str(prepare_bundled(adapter=ADAPTER))
    with (
        tempfile.TemporaryDirectory() as folder,
        vllm_server(weights) as server,
        # Its cores are logical: one model works at a time.
        served(_models(str(small_classifier(Path(folder))), weights, server), num_cpus=8) as url,
    ):
        return asyncio.run(_run(requests, url))


async def _run(requests: list[Request], url: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    questions = [{**request, "question": "Which number is it?"} for request in requests]
    for name, asked, times, settings in (
        ("rule gsm8k", requests, _RULE_REPEATS, {"model": "gsm8k"}),
        ("rule math", requests, _RULE_REPEATS, {"model": "math"}),
        ("judge, rules first", requests, _MODEL_REPEATS, {"model": "rules-first"}),
        ("judge", requests[:128], _MODEL_REPEATS, {"model": "judge"}),
        ("classifier", questions[:128], _MODEL_REPEATS, {"model": "classifier"}),
        ("remote", requests[:64], _MODEL_REPEATS, {"model": "remote"}),
        ("composite of judge and rules", requests[:128], _MODEL_REPEATS, {"model": "composite"}),
    ):
        client = HttpRewardClient(url, timeout_s=600)
        marks = [f"{name[0]}{len(figures)}{number}" for number in range(times)]
        stream = [{**body, **settings} for mark in marks for body in marked(asked, mark)]
        await client.ascore_batch([{**body, **settings} for body in marked(asked[:4], "warm")])
        with console.status(f"kinds: {name}"):
            seconds, results = await timed(
                lambda c=client, s=stream: in_batches(c, s, _BATCH)  # type: ignore[misc]
            )
        used = Counter[str]()
        for result in results:
            used.update(result.usage.model_dump())
        thousand = 1000 / len(results)
        figures[name] = {
            "verdicts_per_s": len(results) / seconds,
            "core_seconds_per_1000": _CORES * seconds * thousand,
            "prompt_tokens_per_1000": used["prompt_tokens"] * thousand,
            "cached_tokens_per_1000": used["cached_tokens"] * thousand,
            "written_tokens_per_1000": used["completion_tokens"] * thousand,
            "statuses": dict(Counter(result.status.value for result in results)),
            "reasons": sorted({result.reason for result in results if result.score is None})[:3],
        }
    return figures


def _models(classifier: str, weights: str, server: str) -> list[dict[str, Any]]:
    judge = {"template": "final_answer", "audit_rate": 0.0}
    remote = {"model": weights, "base_url": f"{server}/v1", "api_key_env": None}
    members = ["judge", "gsm8k", "math"]
    return [
        {"name": "rules-first", "kind": "judge", "judge": judge},
        {"name": "judge", "kind": "judge", "judge": {**judge, "rules_first": False}},
        {"name": "classifier", "kind": "classifier", "engine": {"model": classifier}},
        {"name": "gsm8k", "kind": "rule", **_SMALL},
        {"name": "math", "kind": "rule", "rule": {"verifier": "math"}, **_SMALL},
        {
            "name": "remote",
            "kind": "remote",
            "remote": remote,
            "judge": {**judge, "rules_first": False},
            **_SMALL,
        },
        {
            "name": "composite",
            "kind": "composite",
            "composite": {"members": members, "quorum": 1},
            **_SMALL,
        },
    ]
