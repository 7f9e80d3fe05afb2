"""GRPO on this machine, optimised by SkyRL's Tinker engine and rewarded by the service.

``python -m examples.grpo judge-sync``: one of the runs of ``settings.RUNS``.
"""

from __future__ import annotations

import logging
import shlex
import signal
import sys
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from deployments.local import console
from examples.grpo import results
from examples.grpo.endpoint import EndpointError
from examples.grpo.engine import environment
from examples.grpo.learner import Learner
from examples.grpo.machine import machine
from examples.grpo.parts import cluster, home_of, only_one, start
from examples.grpo.placement import Placement, resources_of
from examples.grpo.record import Record, RecordError
from examples.grpo.settings import RUNS, Settings

logger = logging.getLogger(__name__)


def main(
    run: Annotated[str, typer.Argument(help=f"all, or one of {', '.join(RUNS)}.")] = "judge-sync",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the run: NAME=VALUE.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs' folders.")] = Path("grpo-out"),
    name: Annotated[str | None, typer.Option(help="Of the run's folder; else the run's.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Ray cluster to join, as auto; else one is started.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="URL of a Tinker endpoint; else SkyRL's engine is started.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The endpoint's base model; else the bundled one.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="URL of a reward service; else Serve's application.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(help="For checkpoints; shared, where the engine may move.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Rollout workers.")] = 1,
    place: Annotated[
        list[str] | None,
        typer.Option(help="PART=RESOURCE: a part's node must have this custom resource of Ray."),
    ] = None,
) -> None:
    """Train a policy; go on where a run of this folder was stopped."""
    chosen = list(RUNS) if run == "all" else [run]
    if not set(chosen) <= RUNS.keys():
        raise typer.BadParameter(f"there is no run {run!r}; choose from all, {', '.join(RUNS)}")
    if model and not endpoint:
        raise typer.BadParameter("--model is the endpoint's: name that by --endpoint too")
    try:
        resources = resources_of(place or [])
    except ValueError as error:
        raise typer.BadParameter(f"--place {error}") from None
    placement = Placement(cluster, endpoint, model, judge, home, workers, resources)
    for one in chosen:
        train(changed(RUNS[one], set_ or []), out / (name or one), placement)
    results.write(out)


def changed(settings: Settings, pairs: list[str]) -> Settings:
    """The settings with others in place of some.

    Raises:
        typer.BadParameter: there is no such setting, or the value is not of its kind.
    """
    kinds = {field.name: type(getattr(settings, field.name)) for field in fields(settings)}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in kinds:
            raise typer.BadParameter(f"no setting {name!r}; choose from {', '.join(kinds)}")
        try:
            values[name] = value == "true" if kinds[name] is bool else kinds[name](value)
        except ValueError:
            raise typer.BadParameter(f"{pair}: must be of type {kinds[name].__name__}") from None
    return replace(settings, **values)


def train(settings: Settings, folder: Path, placement: Placement) -> None:
    """Start the parts, train, and end them.

    Raises:
        SystemExit: the run ended before its last step; the reason was shown.
    """
    try:
        record = Record(folder, settings)
    except (RecordError, OSError) as error:
        console.print(str(error), style="red", markup=False)
        raise SystemExit(1) from None
    if len(record.steps) >= settings.steps:
        return
    try:
        _train(settings, record, placement)
    except (Exception, KeyboardInterrupt) as error:
        logger.debug("the run ended", exc_info=True)
        reason = str(error).strip().rpartition("\n")[2]  # of a worker's error, its own line
        say(
            f"ended after {len(record.steps)} of {settings.steps} steps: "
            f"{type(error).__name__}: {reason}; the same command goes on from there"
        )
        raise SystemExit(1) from None


def _train(settings: Settings, record: Record, placement: Placement) -> None:
    with ExitStack() as stack:
        stack.enter_context(only_one(home_of(placement)))
        stack.enter_context(cluster(settings, placement))
        # Ray has a handler of its own, which ends the process at once.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        while True:
            before = len(record.steps)
            try:
                _take_steps(settings, record, placement)
            except EndpointError as error:
                if len(record.steps) == before:  # it would only be lost again
                    raise
                reason = str(error).strip().rpartition("\n")[2]
                say(f"{reason}; goes on after step {len(record.steps)}")
            else:
                return


def _take_steps(settings: Settings, record: Record, placement: Placement) -> None:
    command = shlex.join(["python", "-m", "examples.grpo", *sys.argv[1:]])
    own = None if placement.endpoint else environment()
    record.start({"command": command, "machine": machine(own)})
    with ExitStack() as stack:
        parts, policy, endpoint = start(settings, placement, record, say, stack)
        Learner(settings, policy, parts, record, endpoint.until, say).run()


def say(line: str) -> None:
    """Show a line of progress."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
