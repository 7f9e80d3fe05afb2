"""``reward-serve plan``: how many replicas a run needs, and the deployments file with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from reward_serve.cli.console import PLAIN
from reward_serve.cli.options import deployments_file
from reward_serve.cli.serve import (
    Device,
    Fields,
    Gpus,
    KindOption,
    Model,
    ModeOption,
    TensorParallel,
)
from reward_serve.cli.serve import Template as JudgingTemplate
from reward_serve.config.base import ConfigError
from reward_serve.config.models import ResourcesConfig
from reward_serve_lab.cli.options import progress

_CALL_S, _VERDICT_S = 0.0035, 0.0003
"""Core seconds of an ingress replica for a call, and for each verdict in it (`make scale`)."""
_CALLS_PER_S = 200.0  # of a process, whose client puts more requests in a call instead
_BUSY = 0.7  # of an ingress replica; beyond it, waits grow
_TIMEOUT_S = 60.0  # of a request by default
_MOST = 4096


@dataclass(frozen=True)
class Run:
    """What a training run asks for, and what one replica gives.

    Attributes:
        rollouts: verdicts of a step.
        samples: responses to a prompt, which go to one replica.
        step_s: seconds of a step.
        generation_s: seconds over which a step's responses end; 0: all at once.
        per_s: verdicts a second of one replica with all slots in use.
        verdict_s: seconds of a verdict with nothing beside it.
        slots: items that a replica judges at once.
    """

    rollouts: int
    samples: int
    step_s: float
    generation_s: float
    per_s: float
    verdict_s: float
    slots: int

    @property
    def _each_s(self) -> float:
        """By how much each item beside it slows a verdict, linearly up to all slots."""
        return max(0.0, self.slots / self.per_s - self.verdict_s) / max(1, self.slots - 1)

    def seconds(self, items: float) -> float:
        """The time in which a replica judges so many items that come at once."""
        if items > self.slots:
            return items / self.per_s
        return self.verdict_s + max(0.0, items - 1) * self._each_s

    def busy(self, replicas: int) -> float:
        """The share of a step in which the replicas judge; above 1 they never catch up."""
        return self.rollouts / (self.step_s * replicas * self.per_s)

    def beyond_s(self, replicas: int) -> float:
        """Seconds from a step's last response to its last verdict.

        All at once, the busiest replica's share, in whole groups. Spread over the generation, what
        is left at its end; below capacity, the time of a verdict beside as many others as there are
        at this rate (Little's law), and the wait in an M/D/1 queue.
        """
        mean = self.rollouts / replicas
        if self.generation_s == 0:
            groups = math.ceil(self.rollouts / self.samples)
            return self.seconds(min(self.rollouts, self.samples * math.ceil(groups / replicas)))
        rate, chance = mean / self.generation_s, math.sqrt(mean)  # of independent arrivals
        load = rate / self.per_s
        if load >= 1:
            return self.seconds(mean - self.per_s * self.generation_s + chance)
        queued = min(load / (2 * (1 - load)), chance)
        beside_s = (self.verdict_s - self._each_s) / (1 - rate * self._each_s)
        in_flight = replicas * rate * self.verdict_s  # of which a replica may have a whole group
        grouped_s = self.seconds(min(self.samples, in_flight) if replicas > 1 else 1)
        return min(max(grouped_s, beside_s) + queued / self.per_s, self.seconds(mean))

    def replicas(self, beyond_s: float) -> int:
        """The fewest replicas with which judging ends in time and keeps up.

        Raises:
            ValueError: no number of them would; the message has the remedy.
        """
        for number in range(1, _MOST + 1):
            if self.busy(number) < 1 and self.beyond_s(number) <= beyond_s:
                return number
        raise ValueError(
            f"--beyond-s {beyond_s:g}: {_MOST} replicas end {self.beyond_s(_MOST):.2g} s after the "
            f"last response; allow more, or judge faster (a verdict alone takes {self.verdict_s:g} "
            "s; label mode, or fewer written tokens)"
        )


def plan(
    model: Model,
    rollouts: Annotated[int, typer.Option(min=1, help="Verdicts of a step.")],
    step_s: Annotated[float, typer.Option(min=1e-3, help="Seconds of a step.")],
    rate: Annotated[float, typer.Option(min=1e-9, help="Verdicts/s of one replica, measured.")],
    samples: Annotated[int, typer.Option(min=1, help="Responses to a prompt.")] = 8,
    generation_s: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds over which a step's responses end; default: the step (asynchronous "
            "training); 0: the trainer asks once all have ended.",
        ),
    ] = None,
    verdict_s: Annotated[
        float | None, typer.Option(min=0, help="Seconds of a verdict alone; default: 1 / rate.")
    ] = None,
    rate_tokens: Annotated[
        float | None, typer.Option(min=1, help="Tokens of a verdict when the rate was measured.")
    ] = None,
    tokens: Annotated[
        float | None,
        typer.Option(min=1, help="Tokens of the run's verdicts; default: as measured."),
    ] = None,
    beyond_s: Annotated[
        float, typer.Option(min=0, help="Judging may end so many seconds after generation.")
    ] = 1.0,
    http: Annotated[bool, typer.Option(help="Trainers ask over HTTP; otherwise by handle.")] = True,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that ask, such as verl's reward workers.")
    ] = 1,
    kind: KindOption = None,
    template: JudgingTemplate = None,
    mode: ModeOption = None,
    device: Device = None,
    tp: TensorParallel = None,
    gpus: Gpus = None,
    fields: Fields = None,
) -> None:
    """Size a service for a training run, and print its deployments file.

    Measure one replica with `reward-serve score FILE --batches-in-flight 16` on responses like the
    run's; it prints verdicts/s. Tokens of a verdict are those of the prompt that no cache has
    (`usage` of the results) in label mode, and the written ones in generate mode.
    """
    if (tokens is None) != (rate_tokens is None):
        raise typer.BadParameter("--tokens and --rate-tokens: give both, or neither")
    slower = (tokens or 1.0) / (rate_tokens or 1.0)
    spread_s = step_s if generation_s is None else generation_s
    if spread_s > step_s:
        raise typer.BadParameter(f"--generation-s {spread_s:g}: exceeds --step-s {step_s:g}")
    alone_s = max(1 / rate, verdict_s or 0.0)
    options: dict[str, Any] = {
        "kind": kind, "template": template, "mode": mode, "device": device, "tp": tp, "gpus": gpus
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    try:
        first = deployments_file(model, given, fields=fields or ()).models[0]
        times = rate / slower, alone_s * slower
        run = Run(rollouts, samples, step_s, spread_s, *times, first.max_concurrent_items or 1)
        replicas = run.replicas(beyond_s)
        peak = min(replicas * run.per_s, rollouts / spread_s if spread_s else math.inf)
        used = _CALL_S * min(peak, processes * _CALLS_PER_S) + _VERDICT_S * peak
        ingress = math.ceil(used / _BUSY) if http else 1
        queued = max(first.max_queued_items, 2 * math.ceil(rollouts / replicas))
        sizes = (
            f"autoscaling={{min_replicas: {replicas}, max_replicas: {replicas}}}",
            f"max_queued_items={queued}",
            f"server.num_replicas={ingress}",
        )
        file = deployments_file(model, given, fields=[*sizes, *(fields or ())])
    except (ConfigError, ValueError) as error:
        progress.print(str(error), style="red", **PLAIN)
        raise typer.Exit(1) from None
    if ingress > 1:
        file.content["proxy_location"] = "EveryNode"
    progress.print(_sizes(run, replicas, file.models[0].resources))
    if http:
        several = "; a proxy on each node, among which trainers are spread" if ingress > 1 else ""
        text = f"HTTP: at most {peak:.0f} verdicts/s; ingress replicas: {ingress}{several}"
        progress.print(text, **PLAIN)
    if (longest := run.beyond_s(replicas)) > _TIMEOUT_S / 2:
        progress.print(f"set the clients' timeout_s to {2 * longest:.0f} or more", **PLAIN)
    typer.echo(yaml.safe_dump(file.content, sort_keys=False), nl=False)


def _sizes(run: Run, replicas: int, each: ResourcesConfig) -> Table:
    """The planned number of replicas, in bold, beside others."""
    cpus, of_gpus = each.num_cpus or 0, each.num_gpus or 0
    table = Table("replicas", "CPU cores", "GPUs", "judging, of a step", "after generation")
    for number in sorted({replicas // 2, replicas - 1, replicas, replicas + 1} - {0}):
        keeps_up = run.busy(number) < 1
        table.add_row(
            *(f"{number}", f"{number * cpus:g}", f"{number * of_gpus:g}"),
            f"{run.busy(number):.0%}",
            f"{run.beyond_s(number):.2g} s" if keeps_up else "ever longer",
            style="bold" if number == replicas else None,
        )
    return table
