"""P3: the cost of clients, calls, validation and admission, without an engine.

The reward model returns immediately. The baseline is a raw Serve deployment that is called one item
at a time and returns its argument.
"""

from __future__ import annotations

import asyncio
from typing import Any

from deployments.local import console
from loadtests.bench.common import load, relative, spreads
from loadtests.cluster import replica_served
from reward_serve.client import HttpRewardClient, RewardClient
from reward_serve.replica.admission import Admission
from reward_serve.replica.observers import Metrics
from reward_serve.replica.scoring import Scorer
from reward_serve.reward_models.base import RewardModel, Trace
from reward_serve.schema import ScoreRequest, ScoreResult, Status

CALLS = {1: (150, 150), 32: (6_000, 800), 256: (20_000, 1_500)}
"""Concurrency to the number of items sent to the service and to the raw deployment."""


class InstantModel(RewardModel):
    """A reward model that returns immediately."""

    async def score(self, request: ScoreRequest, trace: Trace | None = None) -> ScoreResult:
        """Score every request 1.0."""
        return ScoreResult(
            status=Status.OK,
            score=1.0,
            source="judge",
            label="1",
            probabilities={"0": 0.0, "1": 1.0},
        )

    def describe(self) -> dict[str, Any]:
        """An empty description."""
        return {}


class InstantReplica(Scorer):
    """A replica with an ``InstantModel``."""

    def __init__(self) -> None:
        admission = Admission(128, 100_000)
        observers = [Metrics(lambda: 0, dict)]
        super().__init__("instant", InstantModel(), admission, observers=observers)


class Raw:
    """A deployment that returns its argument."""

    async def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the item."""
        return item


def run(repeats: int) -> dict[str, Any]:
    """Items per second and latencies at each concurrency, in alternation.

    ``ratio``: coalesced singles over the raw deployment's calls, at 256 callers.
    """
    from ray import serve

    options = {"max_ongoing_requests": 10_000, "ray_actor_options": {"num_cpus": 0}}
    with replica_served("instant", InstantReplica, app="fabric") as (_, url):
        raw = serve.deployment(Raw).options(name="raw", **options).bind()
        serve.run(raw, name="raw", route_prefix="/raw")
        return asyncio.run(_run(url, repeats))


def _item(number: int) -> dict[str, Any]:
    return {"response": f"She makes {number} dollars. " * 8, "reference": str(number)}


async def _run(url: str, repeats: int) -> dict[str, Any]:
    from ray import serve

    raw = serve.get_deployment_handle("raw", "raw")
    clients = {"handle": RewardClient("fabric"), "http": HttpRewardClient(url)}
    ways: dict[str, Any] = {"raw": lambda n: raw.remote(_item(n))}
    ways |= {name: lambda n, c=client: c.ascore(_item(n)) for name, client in clients.items()}
    figures: dict[str, Any] = {}
    for ask in ways.values():
        await load(ask, 50, 8)  # warm-up: connections, imports
    for concurrency, (items, raw_calls) in CALLS.items():
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
        with console.status(f"P3: concurrency {concurrency}"):
            for _ in range(repeats):
                for name, ask in ways.items():
                    calls = raw_calls if name == "raw" else items
                    runs[name].append(await load(ask, calls, concurrency))
        rates = {
            name: [figures["per_s"] for figures in per_round] for name, per_round in runs.items()
        }
        figures[str(concurrency)] = {**spreads(runs), "ratio": relative(rates, "raw")}
    failed = sum(client.counters.snapshot()["failed"] for client in clients.values())
    return {"ratio": figures["256"]["ratio"], "failed": failed, **figures}
