"""Starts the parts of a run as Ray actors, on the nodes that the placement requires."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock, Timeout

from deployments.local import APP, READY_TIMEOUT_S, console, deployed
from examples.grpo import servers
from examples.grpo.data_server import Data, DataServer
from examples.grpo.endpoint import Endpoint
from examples.grpo.engine import Engine
from examples.grpo.learner import Parts
from examples.grpo.policy import Policy
from examples.grpo.record import Record
from examples.grpo.replay_buffer import ReplayBuffer
from examples.grpo.rollout import RolloutWorker
from examples.grpo.settings import Settings
from examples.grpo.warm_up import WarmUp, warmed_up
from reward_serve.cli.console import prepare_with_progress
from reward_serve.cli.launch import wait_until
from reward_serve.engines.bundled import cache_folder
from reward_serve.keys import use_ray_token

Part = Literal["engine", "data", "buffer", "workers", "servers"]


@dataclass(frozen=True)
class Placement:
    """Where the parts of a run are placed.

    Attributes:
        cluster: address of a Ray cluster to join, such as ``auto``; None starts one.
        endpoint: URL of a Tinker endpoint; None starts SkyRL's engine.
        model: the endpoint's name of the base model, and its tokenizer's name or path on every
            node; None is the bundled model, which each node prepares itself.
        judge: URL of a reward service; None is the cluster's Serve application ``reward``.
        home: folder for the engine's checkpoints; on shared storage if the engine may move.
        workers: number of rollout workers.
        servers: number of policy servers, which sample in the endpoint's place; 0 for none.
        resources: the custom Ray resource that a part's node must have.
    """

    cluster: str | None = None
    endpoint: str | None = None
    model: str | None = None
    judge: str | None = None
    home: Path | None = None
    workers: int = 1
    servers: int = 0
    resources: dict[Part, str] = field(default_factory=dict)

    def options(self, part: Part) -> dict[str, Any]:
        """Ray's options for the part's actor."""
        resource = self.resources.get(part)
        return {"num_cpus": 0, "resources": {resource: 0.001} if resource else None}


def resources_of(pairs: Sequence[str]) -> dict[Part, str]:
    """Parse ``PART=RESOURCE`` pairs.

    Raises:
        ValueError: the part is unknown, or the resource is missing.
    """
    resources: dict[Part, str] = {}
    for pair in pairs:
        part, _, resource = pair.partition("=")
        if part not in get_args(Part) or not resource:
            raise ValueError(f"{pair!r}: must be PART=RESOURCE, with one of {get_args(Part)}")
        resources[part] = resource  # type: ignore[index]  # checked above
    return resources


# A worker samples the next batch while it judges one.
_WORKERS = {"max_concurrency": 2, "scheduling_strategy": "SPREAD"}
# Sampling and judging can be retried, and a lost buffer refills.
_RESTARTED = {"max_restarts": -1, "max_task_retries": -1}


class PlacementError(RuntimeError):
    """The parts cannot be placed; the message has the cause."""


def home_of(placement: Placement) -> Path:
    """The folder of the warm-up's record and the engine's checkpoints."""
    if placement.home:
        return placement.home
    home = cache_folder() / "grpo"
    if placement.endpoint is None:
        return home
    key = f"{placement.endpoint} {placement.model}".encode()
    return home / f"endpoint-{hashlib.sha256(key).hexdigest()[:12]}"


def start(
    settings: Settings,
    data: Data,
    placement: Placement,
    record: Record,
    say: Callable[[str], None],
    stack: ExitStack,
) -> tuple[Parts, Policy, Endpoint]:
    """Start the actors, and load the policy's last state; closing the stack stops them."""
    import ray
    from ray import serve

    def actor(part: Any, kind: type, *args: Any, **options: Any) -> Any:
        made = ray.remote(**placement.options(part), **options)(kind).remote(*args)
        stack.callback(ray.kill, made)
        return made

    home = home_of(placement)
    endpoint = _endpoint(settings, placement, home, actor, stack)
    judge = {"app": None, "url": placement.judge} if placement.judge else None
    if placement.servers:
        stack.callback(serve.delete, servers.APP)
        servers.start(
            placement.servers, placement.model, endpoint.url, placement.options("servers")
        )
    of_run = (settings.reward, judge, record.folder.name, placement.servers > 0)
    given = (endpoint.url, placement.model, *of_run)
    parts = Parts(
        data=actor("data", DataServer, settings.seed, data, **_RESTARTED),
        buffer=actor("buffer", ReplayBuffer, settings, **_RESTARTED),
        workers=[
            actor("workers", RolloutWorker, *given, **_WORKERS, **_RESTARTED)
            for _ in range(placement.workers)
        ],
    )
    policy = _policy(placement, record, endpoint, home, say)
    stack.callback(policy.close)
    return parts, policy, endpoint


def _endpoint(
    settings: Settings, placement: Placement, home: Path, actor: Any, stack: ExitStack
) -> Endpoint:
    import ray

    if placement.endpoint:
        return Endpoint(placement.endpoint)
    sequences = settings.prompts * settings.group
    # Only a joined cluster may have other nodes that must reach the engine.
    engine = actor("engine", Engine, home, settings.group, sequences, placement.cluster is not None)
    url = ray.get(engine.address.remote())
    stack.callback(lambda: _stopped(engine))

    def ended() -> bool:
        try:
            return not ray.get(engine.alive.remote(), timeout=30)
        except ray.exceptions.GetTimeoutError:
            return False
        except ray.exceptions.RayActorError:
            return True

    return Endpoint(url, ended)


def _stopped(engine: Any) -> None:
    import ray

    try:
        ray.get(engine.stop.remote(), timeout=60)
    except ray.exceptions.RayError:  # the actor is gone; the tether stops the engine
        return


def _policy(
    placement: Placement,
    record: Record,
    endpoint: Endpoint,
    home: Path,
    say: Callable[[str], None],
) -> Policy:
    from transformers import AutoTokenizer

    bundled = prepare_with_progress(console, adapter=None) if placement.model is None else None
    model = placement.model or str(bundled)
    if record.steps:
        return Policy(endpoint, model, record.steps[-1]["state"])
    if bundled is None:  # other models are not warmed up
        return Policy(endpoint, model)
    tokenizer = AutoTokenizer.from_pretrained(bundled)
    state = warmed_up(home, WarmUp(), partial(Policy, endpoint, model), tokenizer, say)
    return Policy(endpoint, model, state, optimizer=False)


def judged_by_the_model(log: Path) -> dict[str, Any]:
    """Fields of a judge without rules, which audit it; all its verdicts are logged."""
    log_all = {"folder": str(log), "rate": 1.0}
    return {"rules_first": False, "judge": {"audit_rate": 1.0}, "verdict_log": log_all}


@contextmanager
def cluster(settings: Settings, placement: Placement, log: Path) -> Iterator[None]:
    """Start a Ray cluster, with the judge if the run needs one; or join an existing cluster.

    The judge's verdicts are logged in the folder ``log``.

    Raises:
        PlacementError: the cluster cannot be reached or serves no judge.
    """
    import ray

    judged = settings.reward == "judge" and placement.judge is None
    if placement.cluster is None and judged:
        with deployed(**judged_by_the_model(log)):
            yield
        return
    options: dict[str, Any] = {"logging_level": "error", "log_to_driver": bool(placement.cluster)}
    if placement.cluster is None:
        options["include_dashboard"] = False
    use_ray_token(starts=placement.cluster is None)
    try:
        ray.init(address=placement.cluster or "local", **options)
    except ConnectionError as error:
        raise PlacementError(f"--cluster {placement.cluster}: {error}") from None
    try:
        if judged:
            _await_service()
        yield
    finally:
        ray.shutdown()


def _await_service() -> None:
    from ray import serve

    if APP not in serve.status().applications:
        raise PlacementError(
            f"this cluster has no Serve application {APP!r}: run `serve deploy "
            "deployments/judge.yaml` on it first, or pass a service with --judge URL"
        )
    wait_until(lambda: True, console, [APP], timeout_s=READY_TIMEOUT_S)


@contextmanager
def lock_home(home: Path) -> Iterator[None]:
    """Lock the engine's home.

    Raises:
        PlacementError: another run has locked it.
    """
    home.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(home / ".lock", timeout=0):
            yield
    except Timeout:
        raise PlacementError(f"another run uses {home}; wait for it or stop it") from None
