"""P4: the gain from sending a group's samples to one replica.

One coalescing client sends the same groups of 8 in three ways, in turn, to the same replicas:

- ``affinity``: by the client's own placement, rendezvous hashing with bounded loads;
- ``per_group``: each batch is split by group, and two random replicas are compared for each call
  (power of two choices, Serve's default);
- ``ring``: the same calls with the group as ``session_id``, placed by Serve's consistent hashing.

The samples of a step arrive ``together``, group by group, or ``apart``: in random order, one every
10 ms, as rollouts of different lengths end. Prompts are ``short`` (``final_answer``) or ``long``
(``solution``, references of about 1,000 tokens). Eight replicas of an engine do not fit two cores,
so a stand-in models its prefix cache and sleeps for its time; everything else is the real service.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from random import Random
from typing import Any

from cachetools import LRUCache

from deployments.local import APP, console
from loadtests.bench.common import NO_CACHE, Request, spread, timed
from loadtests.chaos.standin import FakeEngine, text_of
from loadtests.cluster import local_cluster
from reward_serve.client import Client
from reward_serve.client.transport import HandleTransport
from reward_serve.config.models import JudgeModel
from reward_serve.engines.base import LabelOutput, Prompt
from reward_serve.replica.admission import Admission
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.judge import Judge
from reward_serve.routing.dispatch import Placement, Share, group_key
from reward_serve.schema import ScoreResult, Status, Usage

SAMPLES = 8
GROUPS = 4
"""Groups of a step for each replica."""
WAYS = ("affinity", "per_group", "ring")
PROMPTS: dict[str, dict[str, Any]] = {
    "short": {"template": "final_answer", "options": NO_CACHE},
    "long": {"template": "solution", "options": NO_CACHE},
}
ORDERS = ("together", "apart")
REPLICAS = (2, 8)
_REFERENCE_CHARACTERS = 2_400
_APART_S = 0.01
_TIMEOUT_S = 900.0
BLOCK_TOKENS = 16
_TOKEN_CHARACTERS = 3
_BLOCKS = 4096  # of 16 tokens: a cache of 65,536 tokens
_TOKENS_PER_S = 2_000


class PrefixCache:
    """The blocks of tokens that an engine keeps, the least recently used dropped first.

    Args:
        blocks: how many it keeps.
    """

    def __init__(self, blocks: int) -> None:
        self._kept: LRUCache[int, None] = LRUCache(blocks)

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
        return cached


class PrefixEngine(FakeEngine):
    """A fake engine whose prompts are computed one after another, without their cached start."""

    def __init__(self) -> None:
        self._cache = PrefixCache(_BLOCKS)
        self._free_at = 0.0

    async def label_logprobs(self, prompt: Prompt, labels: Sequence[str]) -> LabelOutput:
        """Give the last label probability 0.9."""
        usage = await self._computed(prompt)
        return LabelOutput(dict.fromkeys(labels, math.log(0.1)) | {labels[-1]: -0.1}, usage)

    async def _computed(self, prompt: Prompt) -> Usage:
        text = text_of(prompt)
        size = _TOKEN_CHARACTERS
        tokens = [text[at : at + size] for at in range(0, len(text), size)]
        cached = self._cache.add(tokens)
        now = asyncio.get_running_loop().time()
        work_s = (len(tokens) - cached) / _TOKENS_PER_S
        self._free_at = max(self._free_at, now) + work_s
        await asyncio.sleep(self._free_at - now)
        return Usage(prompt_tokens=len(tokens), cached_tokens=cached, completion_tokens=1)


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


class PerGroup(Placement):
    """Splits a batch into one call per group, whose replica Serve chooses.

    Args:
        sessions: whether to send the group as the call's session.
    """

    def __init__(self, sessions: bool) -> None:
        super().__init__()
        self._sessions = sessions

    def shares(self, items: Mapping[int, object], replicas: Sequence[str]) -> list[Share]:
        """The parts of a batch, one per group."""
        groups: dict[int, list[int]] = {}
        for index, item in items.items():
            groups.setdefault(group_key(item), []).append(index)
        return [Share(str(key) if self._sessions else None, part) for key, part in groups.items()]


def run(requests: list[Request], rounds: int) -> dict[str, Any]:
    """Cached tokens, computed tokens and answers per second, by setting and way."""
    figures = {}
    for replicas in REPLICAS:
        with deployed(replicas):
            name = f"stand-in, {replicas} replicas"
            figures[name] = asyncio.run(_measured(requests, replicas, rounds, name))
    return {"groups_per_replica": GROUPS, "samples": SAMPLES, "rounds": rounds, **figures}


@contextmanager
def deployed(replicas: int) -> Iterator[None]:
    """Deploy a judge with a number of replicas on a new cluster; shut both down after the block."""
    from ray import serve

    from reward_serve.app import bind_ingress, deployment_options
    from reward_serve.config.app import AppConfig
    from reward_serve.config.resolve import resolve

    model: dict[str, Any] = {
        "name": "judge",
        "kind": "judge",
        "judge": {"rules_first": False, "audit_rate": 0.0},
        "resources": {"num_cpus": 1},
        "autoscaling": {"min_replicas": replicas, "max_replicas": replicas},
    }
    config = resolve(AppConfig.parse({"models": [model]}))
    (judge,) = config.models
    deployment = serve.deployment(PrefixReplica).options(name="judge", **deployment_options(judge))
    bound = deployment.bind(judge.model_dump(mode="json"))
    with local_cluster(num_cpus=replicas):
        with console.status(f"P4: {replicas} replicas"):
            serve.start(http_options={"host": None})
            serve.run(bind_ingress(config.server, {"judge": bound}), name=APP, route_prefix=None)
        yield


async def _measured(
    requests: list[Request], replicas: int, rounds: int, name: str
) -> dict[str, Any]:
    clients = {way: await _client(way) for way in WAYS}
    figures: dict[str, Any] = {}
    for prompts, order in product(PROMPTS, ORDERS):
        runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for number in range(-1, rounds):  # the first round, which is short, warms up
            for place, way in enumerate(WAYS):
                mark = f"{place} {prompts} {order} {number}"
                groups = GROUPS * replicas if number >= 0 else replicas
                asked = step(requests, groups, prompts, order, mark)
                with console.status(f"P4: {name}: {prompts}, {order}, {way}"):
                    apart_s = _APART_S if order == "apart" else 0.0
                    seconds, results = await timed(
                        lambda c=clients[way], a=asked, s=apart_s: _sent(c, a, s)  # type: ignore[misc]
                    )
                if number >= 0:
                    runs[way].append(_figures(seconds, results))
        figures[f"{prompts}, {order}"] = {way: _spreads(runs, way) for way in WAYS}
    return figures


async def _sent(client: Client, asked: Sequence[Request], apart_s: float) -> list[ScoreResult]:
    async def send(number: int, request: Request) -> ScoreResult:
        await asyncio.sleep(number * apart_s)
        return await client.ascore(request)

    return await asyncio.gather(*(send(n, request) for n, request in enumerate(asked)))


async def _client(way: str) -> Client:
    transport = HandleTransport(APP)
    await transport.ascore_batch([{"response": "#### 1", "reference": "1"}])
    assert transport._dispatcher
    if way != "affinity":
        deployment = transport._dispatcher._models["judge"]
        deployment._placement = PerGroup(sessions=way == "ring")
    return Client(transport, on_failure="none", timeout_s=_TIMEOUT_S)


def step(
    requests: Sequence[Request], groups: int, prompts: str, order: str, mark: str
) -> list[Request]:
    """The samples of a step in order of arrival; each group has its own reference."""
    asked = []
    for group in range(groups):
        prefix = f"({mark} {group}) "
        reference = requests[5 * group % len(requests)]["reference"]
        if prompts == "long":
            reference = prefix + (f"{reference}\n" * _REFERENCE_CHARACTERS)[:_REFERENCE_CHARACTERS]
        for sample in range(SAMPLES):
            response = requests[(5 * group + sample) % len(requests)]["response"]
            texts = {"response": f"({sample}) {prefix}{response}", "reference": reference}
            asked.append({**texts, "group": prefix, **PROMPTS[prompts]})
    if order == "apart":
        Random(mark.partition(" ")[2]).shuffle(asked)  # the same order for all ways of a round
    return asked


def _figures(seconds: float, results: Sequence[ScoreResult]) -> dict[str, float]:
    lost = [result for result in results if result.status is not Status.OK]
    if lost:
        raise RuntimeError(f"{len(lost)} items have no verdict: {lost[0].reason}")
    prompt = sum(result.usage.prompt_tokens for result in results)
    cached = sum(result.usage.cached_tokens for result in results)
    return {
        "answers_per_s": len(results) / seconds,
        "computed_tokens": prompt - cached,
    }


def _spreads(runs: dict[str, list[dict[str, float]]], way: str) -> dict[str, Any]:
    """A way's figures, and their ratios to affinity's round by round."""
    pairs = list(zip(runs[way], runs["affinity"], strict=True))
    return {
        "computed_tokens": statistics.median(run["computed_tokens"] for run in runs[way]),
        "answers_per_s": spread([run["answers_per_s"] for run in runs[way]]),
        "answers_ratio": spread([a["answers_per_s"] / b["answers_per_s"] for a, b in pairs]),
        "computed_ratio": spread([a["computed_tokens"] / b["computed_tokens"] for a, b in pairs]),
    }
