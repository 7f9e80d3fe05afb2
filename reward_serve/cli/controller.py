"""Gets application states from Serve, and shuts it down, without waiting for a dead controller."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from reward_serve.client.loop import in_thread
from reward_serve.config.models import ModelConfig

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_TIMEOUT_S = 2.0
_POLL_S = 0.5
_NOT_SCHEDULED = "to be scheduled"  # in Serve's message if a replica is waiting for resources
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?:\([\w.]*\))?:")

_unanswered: list[Future[Any]] = []  # at most one call, for the next poll


@dataclass(frozen=True)
class Replicas:
    """A deployment's replica counts, and whether one is waiting for resources."""

    running: int
    wanted: int
    lacks_room: bool


@dataclass(frozen=True)
class State:
    """An application's state.

    Attributes:
        name: Serve's status, or ``ABSENT`` or ``UNKNOWN``.
        message: Serve's messages.
        replicas: replica counts by deployment.
    """

    name: str
    message: str
    replicas: dict[str, Replicas]

    @property
    def has_failed(self) -> bool:
        """Whether the application failed to deploy or is unhealthy."""
        return self.name in _FAILED

    @property
    def is_usable(self) -> bool:
        """Whether every deployment has a running replica or needs none."""
        each = self.replicas.values()
        started = bool(each) and all(one.running or not one.wanted for one in each)
        return self.name == "RUNNING" or (not self.has_failed and started)


def states(names: Iterable[str]) -> dict[str, State]:
    """The state of each application; ``UNKNOWN`` while Serve does not answer."""
    from ray import serve
    from ray.exceptions import ActorDiedError, RayError

    call = _unanswered.pop() if _unanswered else in_thread(serve.status)
    applications = {}
    try:
        applications = call.result(_TIMEOUT_S).applications
    except ActorDiedError:  # permanently; Ray restarts a controller that crashes
        pass
    except (RayError, TimeoutError) as error:
        if not call.done():
            _unanswered.append(call)
        return {name: State("UNKNOWN", str(error), {}) for name in names}
    return {name: _state(applications.get(name)) for name in names}


def shut_down(is_lost: Callable[[], bool]) -> None:
    """Shut Serve down gracefully; stop waiting once ``is_lost()``."""
    from ray import serve

    if not is_lost():
        ending = in_thread(serve.shutdown)
        while not is_lost() and not wait([ending], _POLL_S).done:
            pass


def _state(application: Any) -> State:
    if application is None:
        return State("ABSENT", "", {})
    reasons = [application.message, *(each.message for each in application.deployments.values())]
    replicas = {name: _replicas(each) for name, each in application.deployments.items()}
    return State(str(application.status.value), "; ".join(filter(None, reasons)), replicas)


def _replicas(deployment: Any) -> Replicas:
    counts = deployment.replica_states
    wanted = sum(number for state, number in counts.items() if state != "STOPPING")
    running = counts.get("RUNNING", 0)
    lacks_room = running < wanted and _NOT_SCHEDULED in deployment.message
    return Replicas(running, wanted, lacks_room)


class ReplicaReports:
    """Reports deployments that are short of replicas, once and at each change."""

    def __init__(self, models: Iterable[ModelConfig]) -> None:
        self._resources = {model.name: model.resources for model in models}
        self._reported: dict[str, Replicas] = {}

    def lines(self, found: Iterable[State]) -> Iterator[str]:
        """A line for each deployment that changed since the last call."""
        for name, now in (each for state in found for each in state.replicas.items()):
            is_short = now.running < now.wanted and (now.running > 0 or now.lacks_room)
            if now == self._reported.get(name) or not (is_short or name in self._reported):
                continue
            self._reported[name] = now
            line = f"{name}: {now.running} of {now.wanted} replicas"
            yield line + (self._room(name) if now.lacks_room else "")

    def _room(self, name: str) -> str:
        import ray

        resources = self._resources.get(name)
        if resources is None:  # the HTTP deployment, which needs none; Ray is slow
            return ""
        needed = {"CPU": resources.num_cpus or 0.0, "GPU": resources.num_gpus or 0.0}
        needed = {what: number for what, number in needed.items() if number}
        has, free = ray.cluster_resources(), ray.available_resources()
        needs = " and ".join(f"{number:g} {what}" for what, number in needed.items())
        there = " and ".join(
            f"{free.get(what, 0.0):g} of the cluster's {has.get(what, 0.0):g} {what}"
            for what in needed
        )
        return f"; the next one needs {needs}, and {there} are free"


def cause(message: str) -> str:
    """The error at the end of Serve's message, without the tracebacks."""
    lines = _COLOUR.sub("", message).strip().splitlines()
    if not any("Traceback (most recent call last)" in line for line in lines):
        return "\n".join(lines)
    places = [place for place, line in enumerate(lines) if _EXCEPTION.match(line)]
    return "\n".join(lines[places[-1] :] if places else lines[-1:])
