"""Plans of up to 512 replicas and 64 trainers on a virtual clock, held against real ones.

``held``: the plans of ``nodes`` on its machine, and the ratio of their figures to the real ones.
``run``: bursts of 3 s, and faults, on machines with a core for each process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loadtests.scale import nodes
from loadtests.scale.imitated import (
    MODEL,
    ByHttp,
    Costs,
    Deployment,
    Handle,
    Process,
    Replica,
    run_virtual,
)
from loadtests.scale.workload import Seen, Shape, Waiting, WaitingReplica, train
from reward_serve.client import Client
from reward_serve.client.transport import SERVICE_GRACE_S, HandleTransport
from reward_serve.config.models import AutoscalingConfig
from reward_serve.routing.dispatch import Dispatcher
from reward_serve_lab.cli.plan import Run

_WINDOW_S = 5


@dataclass(frozen=True)
class Plan:
    """A service and its trainers."""

    curve: Mapping[int, float]
    replicas: int = 1  # in all
    trainers: int = 1
    load: float = 0.7  # that the trainers ask for, by the replicas' capacity
    shape: Shape = nodes.SHAPE  # with as many prompts as give the load
    processes: int = 0  # of the trainers; 0 for one each
    ingresses: int = 0  # 0 for calls by handle
    proxies: int = 1  # each for an equal share of the trainers
    applications: int = 1  # each with an equal share of all
    cores: int = 0  # of one machine for all processes; 0 for a core for each
    others: float = 0.0  # how many of them other processes use
    slots: int = 32
    start_s: float = 20.0  # of a replica

    @property
    def capacity_per_s(self) -> float:
        """Verdicts a second of all replicas with all slots in use."""
        return self.replicas * self.slots / Waiting(self.curve).seconds(self.slots)

    @property
    def cycle_s(self) -> float:
        """Seconds of a step, if judging takes none beyond generation."""
        return self.shape.generation_s + self.shape.pause_s

    @property
    def asked(self) -> Shape:
        """The shape with its prompts."""
        asked = self.load * self.capacity_per_s * self.cycle_s / self.shape.samples
        return replace(self.shape, prompts=max(1, round(asked / self.trainers)))


class Service:
    """A plan's processes by role, deployments and clients, one for each trainer."""

    def __init__(self, plan: Plan, costs: Costs) -> None:
        cores, parts = [0.0] * plan.cores or None, range(plan.applications)
        counts = {
            "caller": plan.processes or plan.trainers,
            "proxy": plan.proxies,
            "ingress": plan.ingresses,
            "replica": 0,
            "other": plan.cores,
        }
        self.processes = {r: [Process(cores) for _ in range(n)] for r, n in counts.items()}
        callers, proxies, ingresses, replicas, _ = self.processes.values()

        def replica(name: str) -> Replica:
            replicas.append(made := Replica(name, cores, WaitingReplica(plan.slots, plan.curve)))
            return made

        count = plan.replicas // plan.applications
        self.deployments = [Deployment(f"{n}", replica, count, plan.start_s) for n in parts]

        def dispatcher(process: Process, part: int, **settings: Any) -> Dispatcher:
            handle: Any = Handle(process, self.deployments[part], costs["handle"])
            return Dispatcher({MODEL: handle}, **settings)

        fronts = [{p: dispatcher(p, n) for p in ingresses[n :: len(parts)]} for n in parts]
        called = costs["handle"]["caller"]  # an ingress has these costs for its own calls
        own = {k: max(0.0, ms - called[k]) for k, ms in costs["http"]["ingress"].items()}
        self.clients = []
        for n in range(plan.trainers):
            caller, part = callers[n % len(callers)], n % len(parts)
            transport: HandleTransport
            if ingresses:
                hops = {"caller": caller, "proxy": proxies[n % len(proxies)]}
                transport = ByHttp(hops, fronts[part], {**costs["http"], "ingress": own})
            else:
                transport = HandleTransport("by handle")
                settings = {"grace_s": SERVICE_GRACE_S, "detached": True}
                transport._dispatcher = dispatcher(caller, part, **settings)
            self.clients.append(Client(transport, on_failure="none"))

    async def share(self, cores: float) -> None:
        """Have other processes use so many of the machine's cores."""
        others, every_s = self.processes["other"], 0.01
        turn = {"turn": 1000 * every_s * cores / len(others)}
        async with asyncio.TaskGroup() as turns:
            while True:
                for each in others:
                    turns.create_task(each.work(turn, turn=1))
                await asyncio.sleep(every_s)

    def busy_s(self) -> Counter[Process]:
        """Core seconds of each process until now."""
        return Counter({each: each.busy_s for some in self.processes.values() for each in some})


Event = Callable[[Service], Awaitable[Any]]


def simulated(plan: Plan, costs: Costs, event: Event | None = None) -> tuple[dict[str, Any], Seen]:
    """The figures of a plan, beside an event, and what its trainers saw.

    ``busy``: share of a core that the busiest process of a role uses. ``sustained_per_s``: verdicts
    a second, if step follows upon step.
    """

    async def simulate() -> tuple[dict[str, Any], Seen]:
        service, shape, began = Service(plan, costs), plan.asked, time.monotonic()
        beside = [asyncio.ensure_future(event(service))] if event else []
        if plan.others:
            beside.append(asyncio.ensure_future(service.share(plan.others)))
        training = asyncio.create_task(train(service.clients, shape))
        await asyncio.sleep(plan.cycle_s)
        before = service.busy_s()
        await asyncio.sleep((shape.steps - 1) * plan.cycle_s)
        after, seen = service.busy_s(), await training
        for task in beside:
            task.cancel()
        begins, ends = began + plan.cycle_s, began + shape.steps * plan.cycle_s
        rate, step = seen.per_s(begins, ends), plan.trainers * shape.prompts * shape.samples
        used = {
            role: [(after[each] - before[each]) / (ends - begins) for each in some]
            for role, some in service.processes.items()
            if role != "other" and any(after[each] for each in some)
        }
        return {
            "prompts": shape.prompts,
            "per_s": round(rate, 1),
            "sustained_per_s": round(step / (plan.cycle_s + statistics.mean(seen.beyond)), 1),
            "share": round(rate / plan.capacity_per_s, 3),
            "imbalance": round(seen.imbalance(begins, ends), 3),
            **seen.figures(),
            "busy": {role: round(max(shares), 3) for role, shares in used.items()},
            "cpu_ms": {r: round(1000 * sum(s) / rate, 3) for r, s in used.items()},
        }, seen

    gc.disable()  # with as many tasks, collecting takes three times as long as all else
    try:
        figures: tuple[dict[str, Any], Seen] = run_virtual(simulate)
    finally:
        gc.enable()
    return figures


def run(path: Path) -> dict[str, Any]:
    """The figures of the grid and the faults, by the curve and the costs in the report."""
    _, curve, costs = _read(path)
    logging.disable(logging.WARNING)  # of the faults, which are meant
    figures = {"grid": grid(curve, costs), "faults": faults(curve, costs)}
    logging.disable(logging.NOTSET)
    return figures


def _read(path: Path) -> tuple[dict[str, Any], dict[int, float], Costs]:
    report = json.loads(path.read_text(encoding="utf-8"))
    curve = {int(items): seconds for items, seconds in report["curve"]["seconds"].items()}
    return report, curve, report["costs"]


def held(path: Path) -> dict[str, Any]:
    """Rate and p95 of the real parts' plans, by those in the report.

    Processes use as much CPU time a verdict as there, and others what the rest of Ray used, and of
    the machine where that is known.
    """
    report, curve, costs = _read(path)
    ratios = {}
    for way, load, ingresses in (("handle", "calm", 0), ("handle", "full", 0), ("http", "calm", 1)):
        for count, real in report.get(way, {}).get(load, {}).items():
            plan = Plan(
                nodes.slowed(curve),
                int(count),
                real["trainers"],
                nodes.LOADS[load],
                processes=nodes.PROCESSES,
                cores=2,
                ingresses=ingresses,
                slots=nodes.SLOTS,
            )
            first, used = simulated(plan, costs)[0]["cpu_ms"], real["cpu_ms"]
            factors = {role: used[role] / ms for role, ms in first.items()}
            ms = sum(ms for role, ms in used.items() if role not in first)
            if "cpu_busy" in real:
                others_ms = 1000 * plan.cores * real["cpu_busy"] / real["per_s"] - sum(
                    used.values()
                )
                ms += max(0.0, others_ms)
            plan = replace(plan, others=ms * real["per_s"] / 1000)
            figures, _ = simulated(plan, _scaled(costs, factors))
            ratios[f"{way}, {load}, {count} replicas"] = {
                "per_s": round(figures["per_s"] / real["per_s"], 3),
                "p95": round(figures["p95_ms"] / real["p95_ms"], 3),
                "virtual": figures,
            }
    return ratios


def planned(path: Path) -> dict[str, Any]:
    """Seconds of judging beyond generation by `reward-serve plan`, and on the virtual clock."""
    _, curve, costs = _read(path)
    figures, slots = {}, max(curve)
    for replicas in (1, 4, 16):
        for load, generation_s in ((0.5, 10.0), (0.8, 10.0), (1.2, 10.0), (1.6, 10.0), (1.0, 0.0)):
            shape = Shape(generation_s=generation_s, pause_s=20.0)
            plan = Plan(curve, replicas, load=load * 10 / (generation_s + 20), shape=shape)
            asked, per_s = plan.asked, plan.capacity_per_s / replicas
            rollouts, times = asked.prompts * asked.samples, (plan.cycle_s, generation_s)
            run = Run(rollouts, asked.samples, *times, per_s, curve[1], slots)
            spread = f"over {generation_s:g} s" if generation_s else "at once"
            figures[f"{rollouts} rollouts {spread}, {replicas} replicas"] = {
                "plan_s": round(run.beyond_s(replicas), 3),
                "beyond_s": simulated(plan, costs)[0]["beyond_s"],
            }
    return figures


def _scaled(costs: Costs, factors: Mapping[str, float]) -> Costs:
    """The costs, where those of a handle's caller are the ingress's if there is one."""
    calls = {"caller": factors.get("ingress", factors["caller"])}
    return {
        way: {
            role: {cause: ms * by_role.get(role, 1.0) for cause, ms in causes.items()}
            for role, causes in costs[way].items()
        }
        for way, by_role in (("handle", {**factors, **calls}), ("http", factors))
    }


def grid(curve: Mapping[int, float], costs: Costs) -> dict[str, Any]:
    """The figures of plans by name."""
    short = Plan(curve, shape=Shape(generation_s=2.5, pause_s=0.5, steps=2))
    plans: dict[str, dict[str, int]] = {}
    for trainers, most in ((1, 64), (8, 512), (64, 512)):
        for replicas in (1, 8, 64, 512):
            if trainers <= 8 * replicas <= 8 * most:
                name = f"handle, trainers: {trainers}, {replicas} replicas"
                plans[name] = {"trainers": trainers, "replicas": replicas}
    eight = {"trainers": 8, "replicas": 64, "ingresses": 8}
    for fronts in (1, 2, 4, 8):
        of = {**eight, "ingresses": fronts, "proxies": fronts}
        for replicas in (8, 32, 128):
            name = f"http, ingresses and proxies: {fronts}, {replicas} replicas"
            plans[name] = {**of, "replicas": replicas}
    plans["http, 64 replicas, 8 ingresses, 1 proxy"] = eight
    plans["http, 64 replicas, 8 ingresses, 8 proxies"] = {**eight, "proxies": 8}
    plans["http, 64 replicas, 8 applications"] = {**eight, "proxies": 8, "applications": 8}
    return {name: simulated(replace(short, **plan), costs)[0] for name, plan in plans.items()}  # type: ignore[arg-type]


def faults(curve: Mapping[int, float], costs: Costs) -> dict[str, Any]:
    """Replicas lost and started, with engines ten times as slow as the curve."""
    slow = {items: 10 * seconds for items, seconds in curve.items()}
    plan = Plan(slow, 512, 64, shape=Shape(generation_s=10.0, pause_s=2.0, steps=4))
    few = replace(plan, replicas=64)
    long = replace(few, start_s=150.0, shape=replace(plan.shape, steps=16))
    one = replace(plan, replicas=1, load=512 * plan.load, shape=replace(plan.shape, steps=8))
    return {
        "512 replicas, undisturbed": _lost(plan, 0, costs),
        "a tenth of 512 replicas lost": _lost(plan, 51, costs),
        "all of 64 replicas away for 30 s": _lost(replace(few, start_s=30.0), 64, costs),
        "all of 64 replicas away for 150 s": _lost(long, 64, costs),
        "from 1 to 512 replicas": _scaled_out(one, 512, costs),
    }


def _lost(plan: Plan, count: int, costs: Costs) -> dict[str, Any]:
    notes = {}

    async def lose(service: Service) -> None:
        await asyncio.sleep(1.5 * plan.cycle_s)
        await service.deployments[0].kill(count)
        back = time.monotonic()
        while not all(client._endpoint.up for client in service.clients):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        notes["circuits_closed_s"] = round(time.monotonic() - back, 1)

    figures, seen = simulated(plan, costs, lose)
    return {**_of_fault(figures), **notes, "verdicts_per_s": _over_time(seen)}


def _scaled_out(plan: Plan, most: int, costs: Costs) -> dict[str, Any]:
    replicas = []

    async def scale(service: Service) -> None:
        (deployment,) = service.deployments
        scaling = AutoscalingConfig(max_replicas=most).model_dump(exclude_none=True)
        scaled = asyncio.create_task(
            deployment.autoscale(**scaling, target_ongoing_requests=plan.slots)
        )
        while not scaled.done():
            replicas.append(len(deployment.replicas))
            await asyncio.sleep(_WINDOW_S)

    figures, seen = simulated(plan, costs, scale)
    return {**_of_fault(figures), "replicas": replicas, "verdicts_per_s": _over_time(seen)}


def _of_fault(figures: Mapping[str, Any]) -> dict[str, Any]:
    names = ("verdicts", "absent", "wrong", "p50_ms", "p95_ms", "p99_ms", "beyond_s")
    return {name: figures[name] for name in names}


def _over_time(seen: Seen) -> list[float]:
    """Verdicts a second in each window."""
    pairs = zip(seen.times, seen.replicas, strict=True)
    counts = Counter(int(at // _WINDOW_S) for at, replica in pairs if replica != "None")
    return [counts[n] / _WINDOW_S for n in range(min(counts), max(counts) + 1)]
