"""P4: the gain from sending a group's samples to one replica.

One coalescing client sends the same groups of 8 in three ways, in turn, to the same replicas:

- ``affinity``: by the client's own placement, rendezvous hashing with bounded loads;
- ``per_group``: each batch is split by group, and two random replicas are compared for each call
  (power of two choices, Serve's default);
- ``ring``: the same calls with the group as ``session_id``, placed by Serve's consistent hashing.

The samples of a step arrive ``together``, group by group, or ``apart``: in random order, one every
10 ms, as rollouts of different lengths end. Prompts are ``short`` (``final_answer``), ``long``
(``solution``, references of about 1,000 tokens), or short in ``generate`` mode. The bundled engine
runs on two replicas, a stand-in on two and eight.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from random import Random
from typing import Any

from deployments.local import APP, console
from loadtests.bench.common import NO_CACHE, Request, spread, timed
from loadtests.bench.prefix_cache import PrefixReplica
from reward_serve.client import Client
from reward_serve.client.handle import HandleTransport
from reward_serve.routing.placement import Placement, Share, group_key
from reward_serve.schema import ScoreResult, Status

SAMPLES = 8
GROUPS = 4
"""Groups of a step for each replica."""
WAYS = ("affinity", "per_group", "ring")
PROMPTS: dict[str, dict[str, Any]] = {
    "short": {"template": "final_answer", "options": NO_CACHE},
    "long": {"template": "solution", "options": NO_CACHE},
    "generate": {
        "template": "final_answer",
        "options": {**NO_CACHE, "mode": "generate", "max_tokens": 16},
    },
}
ORDERS = ("together", "apart")
SETTINGS = (("engine", 2), ("stand-in", 2), ("stand-in", 8))
_REFERENCE_CHARACTERS = 2_400
_APART_S = 0.01
_TIMEOUT_S = 900.0


class PerGroup(Placement):
    """Splits a batch into one call per group, whose replica Serve chooses.

    Args:
        sessions: whether to send the group as the call's session.
    """

    def __init__(self, sessions: bool) -> None:
        super().__init__()
        self._sessions = sessions

    def shares(self, items: Sequence[object], replicas: Sequence[str]) -> list[Share]:
        """The parts of a batch, one per group."""
        groups: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            groups.setdefault(group_key(item), []).append(index)
        return [Share(str(key) if self._sessions else None, part) for key, part in groups.items()]


def run(requests: list[Request], rounds: int) -> dict[str, Any]:
    """Cached tokens, computed tokens and answers per second, by setting and way."""
    figures = {}
    for engine, replicas in SETTINGS:
        with deployed(engine, replicas):
            name = f"{engine}, {replicas} replicas"
            figures[name] = asyncio.run(_measured(requests, replicas, rounds, name))
    return {"groups_per_replica": GROUPS, "samples": SAMPLES, "rounds": rounds, **figures}


@contextmanager
def deployed(engine: str, replicas: int) -> Iterator[None]:
    """Deploy a judge with a number of replicas on a new cluster; shut both down after the block."""
    import ray
    from ray import serve

    from reward_serve.app import bind_ingress, deployment_options
    from reward_serve.config.app import AppConfig
    from reward_serve.config.resolve import resolve
    from reward_serve.replica.deployment import RewardReplica

    model: dict[str, Any] = {
        "name": "judge",
        "kind": "judge",
        "judge": {"rules_first": False, "audit_rate": 0.0},
        "resources": {"num_cpus": 1},
        "engine": {"cpu_kv_cache_gib": 0.25},
        "autoscaling": {"min_replicas": replicas, "max_replicas": replicas},
    }
    config = resolve(AppConfig.parse({"models": [model]}))
    (judge,) = config.models
    replica = RewardReplica if engine == "engine" else PrefixReplica
    one = serve.deployment(replica).options(name="judge", **deployment_options(judge))
    bound = one.bind(judge.model_dump(mode="json"))
    ray.init(
        address="local",
        num_cpus=replicas,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    try:
        with console.status(f"P4: {replicas} replicas of the {engine}"):
            serve.start(http_options={"host": None})
            serve.run(bind_ingress(config.server, {"judge": bound}), name=APP, route_prefix=None)
        yield
    finally:
        serve.shutdown()
        ray.shutdown()


async def _measured(
    requests: list[Request], replicas: int, rounds: int, name: str
) -> dict[str, Any]:
    clients = {way: await _client(way) for way in WAYS}
    found: dict[str, Any] = {}
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
        found[f"{prompts}, {order}"] = {way: _spreads(runs, way) for way in WAYS}
    return found


async def _sent(client: Client, asked: Sequence[Request], apart_s: float) -> list[ScoreResult]:
    async def one(number: int, request: Request) -> ScoreResult:
        await asyncio.sleep(number * apart_s)
        return await client.ascore(request)

    return await asyncio.gather(*(one(n, request) for n, request in enumerate(asked)))


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
        own = f"({mark} {group}) "
        reference = requests[5 * group % len(requests)]["reference"]
        if prompts == "long":
            reference = own + (f"{reference}\n" * _REFERENCE_CHARACTERS)[:_REFERENCE_CHARACTERS]
        for sample in range(SAMPLES):
            response = requests[(5 * group + sample) % len(requests)]["response"]
            one = {"response": f"({sample}) {own}{response}", "reference": reference}
            asked.append({**one, "group": own, **PROMPTS[prompts]})
    if order == "apart":
        Random(mark.partition(" ")[2]).shuffle(asked)  # the same order for all ways of a round
    return asked


def _figures(seconds: float, results: Sequence[ScoreResult]) -> dict[str, float]:
    answered = (Status.OK, Status.UNPARSEABLE, Status.TRUNCATED)
    lost = [result for result in results if result.status not in answered]
    if lost:
        raise RuntimeError(f"{len(lost)} items have no verdict: {lost[0].reason}")
    prompt = sum(result.usage.prompt_tokens for result in results)
    cached = sum(result.usage.cached_tokens for result in results)
    return {
        "answers_per_s": len(results) / seconds,
        "cached_tokens": cached,
        "computed_tokens": prompt - cached,
    }


def _spreads(runs: dict[str, list[dict[str, float]]], way: str) -> dict[str, Any]:
    """A way's figures, and their ratios to affinity's round by round."""
    pairs = list(zip(runs[way], runs["affinity"], strict=True))
    return {
        "cached_tokens": statistics.median(own["cached_tokens"] for own in runs[way]),
        "computed_tokens": statistics.median(own["computed_tokens"] for own in runs[way]),
        "answers_per_s": spread([own["answers_per_s"] for own in runs[way]]),
        "answers_ratio": spread([a["answers_per_s"] / b["answers_per_s"] for a, b in pairs]),
        "computed_ratio": spread([a["computed_tokens"] / b["computed_tokens"] for a, b in pairs]),
    }
