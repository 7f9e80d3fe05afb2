"""P4: routing a group to one replica, against Serve's power of two choices.

Two replicas of one core each. Groups of 8 use the ``solution`` template, whose gold solution stands
before the response, so that a group shares it. All groups arrive at once, one after another
(``burst``) or sample by sample (``interleaved``). Our client coalesces them; power of two choices
gets them one by one, which balances the replicas best. Shareable tokens are counted in whole blocks
of the prefix cache: the longest start of each prompt that an earlier prompt has.
``short_interleaved`` uses ``final_answer``, whose prompts share only the template's text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from deployments.local import APP, console, deployed
from loadtests.bench.common import NO_CACHE, PromptRenderer, Request, timed
from reward_serve.client import Client, RewardClient
from reward_serve.engines.bundled import ADAPTER, prepare_bundled
from reward_serve.engines.tokenizer import ChatTokenizer
from reward_serve.engines.vllm_settings import CPU_BLOCK_SIZE
from reward_serve.schema import ScoreResult, Status

GROUPS, SAMPLES, REPLICAS = 16, 8, 2
_TIMEOUT_S = 900.0

Ask = Callable[[Request], Awaitable[ScoreResult]]


def run(requests: list[Request]) -> dict[str, Any]:
    """``ratio``: the share of the shareable tokens of the burst that our routing reused."""
    from transformers import AutoTokenizer

    folder = prepare_bundled(adapter=ADAPTER)
    tokenizer = ChatTokenizer(AutoTokenizer.from_pretrained(folder))
    rendered = {name: PromptRenderer(tokenizer, name) for name in ("solution", "final_answer")}
    figures: dict[str, Any] = {}
    for way, affinity in (("affinity", True), ("power_of_two", False)):
        with deployed(
            rules_first=False,
            affinity=affinity,
            resources={"num_cpus": 1},
            autoscaling={"min_replicas": REPLICAS, "max_replicas": REPLICAS},
        ):
            _wait_for_replicas()
            figures[way] = asyncio.run(_run(requests, rendered, affinity))
    pairs = [
        (order, figures["affinity"][order], figures["power_of_two"][order]) for order in _ORDERS
    ]
    return {
        "ratio": figures["affinity"]["burst"]["reused_share"],
        "speedup": {
            order: ours["answers_per_s"] / rs["answers_per_s"] for order, ours, rs in pairs
        },
        "replicas": REPLICAS,
        "groups": GROUPS,
        "samples": SAMPLES,
        **figures,
    }


_ORDERS = {"burst": "solution", "interleaved": "solution", "short_interleaved": "final_answer"}
"""Each order of arrival, and its template."""


async def _run(
    requests: list[Request], rendered: dict[str, PromptRenderer], affinity: bool
) -> dict[str, Any]:
    by_handle = RewardClient(APP, timeout_s=_TIMEOUT_S)
    ask = Client(by_handle, timeout_s=_TIMEOUT_S).ascore if affinity else by_handle.ascore
    gold = list({one["reference"]: one for one in requests})
    figures = {}
    for number, (order, template) in enumerate(_ORDERS.items()):
        ours = gold[number * GROUPS : (number + 1) * GROUPS]
        # Warm up with the template's text, which all prompts share.
        warm = stream(requests, gold[-4:], template, "interleaved")
        await asyncio.gather(*map(ask, warm))
        asked = stream(requests, ours, template, order)
        with console.status(f"P4: {order}, {'affinity' if affinity else 'power of two'}"):
            seconds, results = await timed(lambda a=asked: asyncio.gather(*map(ask, a)))  # type: ignore[misc]
        if any(result.status is not Status.OK for result in results):
            raise RuntimeError(f"{order}: {[r.reason for r in results if r.reason][:1]}")
        prompts = [rendered[template].ids(one) for one in [*warm, *asked]]
        shareable = shareable_tokens(prompts[len(warm) :], before=prompts[: len(warm)])
        reused = sum(result.usage.cached_tokens for result in results)
        figures[order] = {
            "reused_share": reused / shareable,
            "reused_tokens": reused,
            "shareable_tokens": shareable,
            "prompt_tokens": sum(map(len, prompts[len(warm) :])),
            "answers_per_s": len(asked) / seconds,
        }
    return figures


def stream(
    requests: Sequence[Request], gold: Sequence[str], template: str, order: str
) -> list[Request]:
    """A group of distinct responses for each gold solution, in order of arrival."""
    groups = [
        [
            {
                "response": f"({sample}) {requests[(5 * g + sample) % len(requests)]['response']}",
                "reference": reference,
                "template": template,
                "options": NO_CACHE,
            }
            for sample in range(SAMPLES)
        ]
        for g, reference in enumerate(gold)
    ]
    turns = groups if order == "burst" else zip(*groups, strict=True)
    return [one for turn in turns for one in turn]


def shareable_tokens(prompts: Sequence[Sequence[int]], before: Sequence[Sequence[int]]) -> int:
    """Tokens in whole blocks that an earlier prompt starts with, without the last token."""
    seen: set[tuple[int, ...]] = set()
    shared = 0
    for number, ids in enumerate([*before, *prompts]):
        ends = range(CPU_BLOCK_SIZE, len(ids) + 1, CPU_BLOCK_SIZE)
        starts = [tuple(ids[:end]) for end in ends]
        if number >= len(before):
            shared += sum(CPU_BLOCK_SIZE for one in starts if one in seen and len(one) < len(ids))
        seen.update(starts)
    return shared


def _wait_for_replicas() -> None:
    from ray import serve

    with console.status(f"P4: {REPLICAS} replicas"):
        while True:
            deployment = serve.status().applications[APP].deployments["judge"]
            if deployment.replica_states.get("RUNNING", 0) == REPLICAS:
                return
            time.sleep(1)
