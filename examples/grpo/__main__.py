"""GRPO on this machine, optimised by SkyRL's Tinker engine and rewarded by the service.

``python -m examples.grpo judge-sync``: one of the runs of ``settings.RUNS``.
"""

from __future__ import annotations

import logging
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from filelock import FileLock, Timeout

from deployments.local import console, deployed, free_port
from examples.grpo import results
from examples.grpo.data_server import DataServer
from examples.grpo.engine import Engine, environment
from examples.grpo.learner import Learner, Parts
from examples.grpo.machine import machine
from examples.grpo.policy import Policy
from examples.grpo.record import Record, RecordError
from examples.grpo.replay_buffer import ReplayBuffer
from examples.grpo.rollout import RolloutWorker
from examples.grpo.settings import RUNS, Settings
from examples.grpo.warm_up import WarmUp, warmed_up
from reward_serve.cli.console import prepare_with_progress
from reward_serve.embedded.bundled import cache_folder

logger = logging.getLogger(__name__)

_TOGETHER = 2  # sampling a batch ahead, and judging


def main(
    run: Annotated[str, typer.Argument(help=f"all, or one of {', '.join(RUNS)}.")] = "judge-sync",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the run: NAME=VALUE.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs' folders.")] = Path("grpo-out"),
    name: Annotated[str | None, typer.Option(help="Of the run's folder; else the run's.")] = None,
) -> None:
    """Train a policy; go on where a run of this folder was stopped."""
    chosen = list(RUNS) if run == "all" else [run]
    if not set(chosen) <= RUNS.keys():
        raise typer.BadParameter(f"there is no run {run!r}; choose from all, {', '.join(RUNS)}")
    for one in chosen:
        train(changed(RUNS[one], set_ or []), out / (name or one))
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


def train(settings: Settings, folder: Path) -> None:
    """Start the parts, train, and end them.

    Raises:
        SystemExit: the run ended before its last step; the reason was shown.
    """
    try:
        record = Record(folder, settings)
    except RecordError as error:
        console.print(str(error), style="red", markup=False)
        raise SystemExit(1) from None
    try:
        _train(settings, record)
    except (Exception, KeyboardInterrupt) as error:
        logger.debug("the run ended", exc_info=True)
        reason = str(error).strip().rpartition("\n")[2]  # of a worker's error, its own line
        say(
            f"ended after {len(record.steps)} of {settings.steps} steps: "
            f"{type(error).__name__}: {reason}; the same command goes on from there"
        )
        raise SystemExit(1) from None


def _train(settings: Settings, record: Record) -> None:
    model = prepare_with_progress(console, adapter=None)
    home = cache_folder() / "grpo"
    command = shlex.join(["python", "-m", "examples.grpo", *sys.argv[1:]])
    record.start({"command": command, "machine": machine(environment())})
    with ExitStack() as stack:
        stack.enter_context(only_one(home))
        stack.enter_context(cluster(settings))
        # Ray has a handler of its own, which ends the process at once.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        parts, policy = start(settings, record, model, home, stack)
        Learner(settings, policy, parts, record, say).run()


def start(
    settings: Settings, record: Record, model: Path, home: Path, stack: ExitStack
) -> tuple[Parts, Policy]:
    """The actors, and the policy at the run's last state."""
    import ray
    from transformers import AutoTokenizer

    light = ray.remote(num_cpus=0)
    sequences = settings.prompts * settings.group
    engine = light(Engine).remote(model, home, free_port(), settings.group, sequences)
    url = ray.get(engine.address.remote())
    stack.callback(lambda: ray.get(engine.stop.remote()))
    worker = ray.remote(num_cpus=0, max_concurrency=_TOGETHER, max_restarts=-1, max_task_retries=-1)
    parts = Parts(
        data=light(DataServer).remote(settings.seed),
        buffer=light(ReplayBuffer).remote(settings.priority, settings.max_staleness),
        workers=[worker(RolloutWorker).remote(url, model, settings.reward)],
    )
    if record.steps:
        return parts, Policy(url, model, record.steps[-1]["state"])
    tokenizer = AutoTokenizer.from_pretrained(model)
    state = warmed_up(home, WarmUp(), partial(Policy, url, model), tokenizer, say)
    return parts, Policy(url, model, state, optimizer=False)


@contextmanager
def cluster(settings: Settings) -> Iterator[None]:
    """A Ray cluster of this process, with the service where the run asks it; gone afterwards."""
    if settings.reward == "judge":
        # Without rules, so that every verdict is the model's.
        with deployed(rules_first=False):
            yield
        return
    import ray

    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the engine's home.

    Raises:
        SystemExit: another run holds it.
    """
    home.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home / ".lock", timeout=0):
            yield
    except Timeout:
        console.print(f"another run uses {home}; wait for it, or end it", style="red")
        raise SystemExit(1) from None


def say(line: str) -> None:
    """Show a line of progress."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
