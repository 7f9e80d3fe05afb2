from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadtests.scale import imitated, nodes
from loadtests.scale.imitated import Deployment, Handle, Process, Replica, run_virtual
from loadtests.scale.virtual import Plan, Service, held, planned, simulated
from loadtests.scale.workload import Shape, WaitingReplica
from reward_serve.routing.dispatch import DeploymentClient

CAUSES = {"single": 1.0, "stream": 1.0, "item": 0.1, "message": 0.1}
ROLES = ("caller", "proxy", "ingress", "replica")
COSTS: dict[str, Any] = {way: dict.fromkeys(ROLES, CAUSES) for way in ("handle", "http")}
CURVE = {1: 0.5, 16: 0.5}
PLAN = Plan(CURVE, 4, 4, shape=Shape(generation_s=4.0, pause_s=1.0, steps=2), slots=16)


def test_hours_pass_at_once_on_every_clock() -> None:
    async def wait() -> list[float]:
        await asyncio.sleep(3600)
        return [time.monotonic(), time.time(), asyncio.get_running_loop().time()]

    began = time.monotonic()
    monotonic, *others = run_virtual(wait)
    assert others == [monotonic] * 2
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("load", [0.5, 1.5])
def test_replicas_give_their_capacity_and_no_more(load: float) -> None:
    figures, seen = simulated(replace(PLAN, load=load), COSTS)
    assert (figures["absent"], seen.wrong) == ({}, 0)
    assert 0.7 * min(load, 1.0) < figures["share"] <= 1.0


def test_the_busiest_core_bounds_the_rate() -> None:
    costly = COSTS | {"http": COSTS["http"] | {"ingress": dict.fromkeys(CAUSES, 20.0)}}
    one, four = (simulated(replace(PLAN, ingresses=n), costly)[0] for n in (1, 4))
    assert one["busy"]["ingress"] > 0.95
    assert one["sustained_per_s"] < 50 and 2 * one["sustained_per_s"] < four["sustained_per_s"]
    half, full = (simulated(replace(PLAN, cores=1, others=n), COSTS)[0] for n in (0.5, 0.9))
    assert half["p50_ms"] < 550 and full["p50_ms"] > 750


def test_a_plan_held_against_its_own_figures_agrees_with_them(tmp_path: Path) -> None:
    plan = Plan(nodes.slowed(CURVE), 2, 2, processes=2, cores=2, slots=nodes.SLOTS)
    real = simulated(plan, COSTS)[0] | {"trainers": 2}
    report = {"curve": {"seconds": CURVE}, "costs": COSTS, "handle": {"calm": {"2": real}}}
    (tmp_path / "scale.json").write_text(json.dumps(report), encoding="utf-8")
    (row,) = held(tmp_path / "scale.json").values()
    assert [row["per_s"], row["p95"]] == pytest.approx([1.0, 1.0], abs=0.02)


def test_a_plan_says_how_long_judging_takes_beyond_generation(tmp_path: Path) -> None:
    curve = {1: 0.06, 8: 0.22, 32: 0.72}
    report = {"curve": {"seconds": curve}, "costs": COSTS}
    (tmp_path / "scale.json").write_text(json.dumps(report), encoding="utf-8")
    for name, of in planned(tmp_path / "scale.json").items():
        assert of["plan_s"] == pytest.approx(of["beyond_s"], rel=0.35, abs=0.1), name


def _answered(
    replicas: int, *requests: Any, dies_at: float | None = None
) -> list[tuple[str, str | None]]:
    async def ask() -> Any:
        deployment = Deployment(
            "app", lambda name: Replica(name, None, WaitingReplica(16, CURVE)), replicas
        )
        handle: Any = Handle(Process(None), deployment, COSTS["handle"])
        results: dict[int, Any] = {}
        killing = []
        items = dict(enumerate(requests))
        asking = asyncio.create_task(DeploymentClient(handle).score_each(items, results.update))
        if dies_at is not None:
            await asyncio.sleep(dies_at)
            killing.append(asyncio.create_task(deployment.kill(replicas)))
        await asking
        return [(results[n]["status"], results[n]["reason"]) for n in items]

    answered: list[tuple[str, str | None]] = run_virtual(ask)
    return answered


def test_a_handle_refuses_what_serve_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"response": "1" * 100, "reference": "1"}
    assert _answered(2, request) == [("ok", None)]
    ((status, reason),) = _answered(2, request, dies_at=0.2)
    assert status == "error" and "lost" in str(reason)
    monkeypatch.setattr(imitated, "MESSAGE_BYTES", 50)
    assert _answered(2, request) == [
        ("invalid", "the results exceed 4 MiB; send fewer items at once")
    ]
    monkeypatch.undo()
    monkeypatch.setattr(imitated, "MAX_ONGOING", 1)
    assert (
        sorted(s for s, _ in _answered(1, *[request] * 300)) == ["ok"] * 256 + ["overloaded"] * 44
    )


def test_autoscaling_starts_and_stops_replicas_by_serves_own_policy() -> None:
    counts = []

    async def scale(service: Service) -> None:
        (deployment,) = service.deployments
        delays = {"upscale_delay_s": 5, "downscale_delay_s": 5, "look_back_period_s": 11}
        bounds = {"min_replicas": 1, "max_replicas": 6, "target_ongoing_requests": 16}
        scaled = asyncio.create_task(deployment.autoscale(**delays, **bounds))
        while not scaled.done():
            counts.append(len(deployment.replicas))
            await asyncio.sleep(1)

    shape = Shape(generation_s=10.0, pause_s=40.0, steps=2)
    simulated(replace(PLAN, replicas=1, load=3.0, shape=shape, start_s=5.0), COSTS, scale)
    assert (counts[0], max(counts), counts[-1]) == (1, 6, 1)
