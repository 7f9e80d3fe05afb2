"""GRPO on this machine, trained by SkyRL's Tinker engine and rewarded by the service.

``python -m examples.grpo judge-sync`` starts one of ``settings.RUNS``.
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
from examples.grpo.data_server import Data, read_data
from examples.grpo.endpoint import EndpointError
from examples.grpo.engine import environment
from examples.grpo.learner import Learner
from examples.grpo.parts import Placement, cluster, home_of, lock_home, resources_of, start
from examples.grpo.record import Record, RecordError, machine, say
from examples.grpo.settings import RUNS, Settings

logger = logging.getLogger(__name__)


def main(
    run: Annotated[str, typer.Argument(help=f"all, or one of {', '.join(RUNS)}.")] = "judge-sync",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting: NAME=VALUE.")
    ] = None,
    data: Annotated[
        str,
        typer.Option(
            help="Questions and answers: gsm8k, math500, a hub id or a file; default: generated."
        ),
    ] = "",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Set the number of steps by passes over the data.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Parent of the runs' folders.")] = Path("grpo-out"),
    name: Annotated[
        str | None, typer.Option(help="Name of the run's folder; default: the run's name.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Ray cluster to join, such as auto; default: start one.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="URL of a Tinker endpoint; default: start SkyRL's engine.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The endpoint's base model; default: the bundled one.")
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(help="URL of a reward service; default: the cluster's Serve application."),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints; on shared storage if the engine may move."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of rollout workers.")] = 1,
    servers: Annotated[
        int,
        typer.Option(min=0, help="Policy servers that sample, behind a session-aware router."),
    ] = 0,
    place: Annotated[
        list[str] | None,
        typer.Option(help="PART=RESOURCE: run a part on a node with this custom Ray resource."),
    ] = None,
) -> None:
    """Train a policy, or resume the run in this folder."""
    chosen = list(RUNS) if run == "all" else [run]
    if not set(chosen) <= RUNS.keys():
        raise typer.BadParameter(f"no run {run!r}; choose from all, {', '.join(RUNS)}")
    if model and not endpoint:
        raise typer.BadParameter("--model needs --endpoint")
    try:
        resources = resources_of(place or [])
    except ValueError as error:
        raise typer.BadParameter(f"--place {error}") from None
    placement = Placement(cluster, endpoint, model, judge, home, workers, servers, resources)
    for run_name in chosen:
        settings = changed(RUNS[run_name], [f"data={data}", *(set_ or [])])
        problems = read_data(settings.data, settings.reward)
        if epochs:
            steps = -(-epochs * len(problems.train) // settings.prompts)
            settings = replace(settings, steps=steps)
        train(settings, problems, out / (name or run_name), placement)
    results.write(out)


def changed(settings: Settings, pairs: list[str]) -> Settings:
    """The settings with ``NAME=VALUE`` overrides applied.

    Raises:
        typer.BadParameter: there is no such setting, or the value has the wrong type.
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


def train(settings: Settings, data: Data, folder: Path, placement: Placement) -> None:
    """Start the parts, train, and stop the parts.

    Raises:
        SystemExit: the run stopped before its last step; the reason was shown.
    """
    try:
        record = Record(folder, settings)
    except (RecordError, OSError) as error:
        console.print(str(error), style="red", markup=False)
        raise SystemExit(1) from None
    if len(record.steps) >= settings.steps:
        return
    try:
        _train(settings, data, record, placement)
    except (Exception, KeyboardInterrupt) as error:
        logger.debug("the run stopped", exc_info=True)
        reason = str(error).strip().rpartition("\n")[2]  # a worker's error ends with its message
        say(
            f"stopped after {len(record.steps)} of {settings.steps} steps: "
            f"{type(error).__name__}: {reason}; run the same command to resume"
        )
        raise SystemExit(1) from None


def _train(settings: Settings, data: Data, record: Record, placement: Placement) -> None:
    with ExitStack() as stack:
        stack.enter_context(lock_home(home_of(placement)))
        stack.enter_context(cluster(settings, placement, record.folder.resolve() / "verdicts"))
        # Ray's own handler ends the process at once.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        while True:
            before = len(record.steps)
            try:
                _take_steps(settings, data, record, placement)
            except EndpointError as error:
                if len(record.steps) == before:  # a new engine would probably fail too
                    raise
                reason = str(error).strip().rpartition("\n")[2]
                say(f"{reason}; resuming after step {len(record.steps)}")
            else:
                return


def _take_steps(settings: Settings, data: Data, record: Record, placement: Placement) -> None:
    command = shlex.join(["python", "-m", "examples.grpo", *sys.argv[1:]])
    engine_environment = None if placement.endpoint else environment()
    record.start({"command": command, "machine": machine(engine_environment)})
    with ExitStack() as stack:
        parts, policy, endpoint = start(settings, data, placement, record, say, stack)
        Learner(settings, policy, parts, record, endpoint.until, say).run()


if __name__ == "__main__":
    typer.run(main)
