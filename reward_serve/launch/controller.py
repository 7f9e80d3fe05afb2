"""Asks Serve's controller for the applications' states, in short, or to end.

``serve.status`` and ``serve.shutdown`` may wait for a controller that has gone; nothing here does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from reward_serve.config.models import ModelConfig

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_TIMEOUT_S = 2.0
_SHUTDOWN_S = 30.0
_POLL_S = 0.5
_NOT_SCHEDULED = "to be scheduled"  # in the message of a deployment whose replica waits for room
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?:\([\w.]*\))?:")


@dataclass(frozen=True)
class Replicas:
    """The replicas of a deployment: how many run, of how many, and whether one lacks room."""

    running: int
    wanted: int
    lacks_room: bool


@dataclass(frozen=True)
class State:
    """An application's state.

    Attributes:
        name: Serve's name of the state.
        message: Serve's reasons.
        replicas: of each deployment.
    """

    name: str
    message: str
    replicas: dict[str, Replicas]

    @property
    def has_failed(self) -> bool:
        """Whether it cannot be served."""
        return self.name in _FAILED

    @property
    def is_usable(self) -> bool:
        """Whether every deployment has a replica, or needs none."""
        each = self.replicas.values()
        started = bool(each) and all(one.running or not one.wanted for one in each)
        return self.name == "RUNNING" or (not self.has_failed and started)


def states(names: Iterable[str]) -> dict[str, State]:
    """The states of these applications: ABSENT, UNKNOWN while Serve does not answer, or Serve's."""
    import ray
    from ray.serve.context import _get_global_client
    from ray.serve.schema import ServeInstanceDetails

    client = _get_global_client(raise_if_no_controller_running=False)
    applications = {}
    try:
        if client is not None:
            asked = client._controller.get_serve_instance_details.remote()
            details = ServeInstanceDetails(**ray.get(asked, timeout=_TIMEOUT_S))
            applications = details._get_status().applications
    except ray.exceptions.ActorDiedError:  # for good; Ray restarts one that failed
        pass
    except ray.exceptions.RayError as error:
        return {name: State("UNKNOWN", str(error), {}) for name in names}
    return {name: _state(applications.get(name)) for name in names}


def shut_down(is_pointless: Callable[[], bool]) -> None:
    """Shut Serve down, giving its replicas time; stop waiting when that ``is_pointless``."""
    import ray
    from ray.serve.context import _get_global_client

    if is_pointless():
        return
    client = _get_global_client(raise_if_no_controller_running=False)
    if client is None:
        return
    ending = client._controller.graceful_shutdown.remote()
    until = time.monotonic() + _SHUTDOWN_S
    while not is_pointless() and time.monotonic() < until:
        if ray.wait([ending], timeout=_POLL_S)[0]:
            return


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
    """Says, once and at each change, which deployments have fewer replicas than they should."""

    def __init__(self, models: Iterable[ModelConfig]) -> None:
        self._resources = {model.name: model.resources for model in models}
        self._said: dict[str, Replicas] = {}

    def lines(self, found: Iterable[State]) -> Iterator[str]:
        """What is new in these states."""
        for name, now in (each for state in found for each in state.replicas.items()):
            is_short = now.running < now.wanted and (now.running > 0 or now.lacks_room)
            if now == self._said.get(name) or not (is_short or name in self._said):
                continue
            self._said[name] = now
            line = f"{name}: {now.running} of {now.wanted} replicas"
            yield line + (self._room(name) if now.lacks_room else "")

    def _room(self, name: str) -> str:
        import ray

        resources = self._resources[name]  # the HTTP deployment asks for no room
        asked = {"CPU": resources.num_cpus or 0.0, "GPU": resources.num_gpus or 0.0}
        asked = {what: number for what, number in asked.items() if number}
        has, free = ray.cluster_resources(), ray.available_resources()
        needs = " and ".join(f"{number:g} {what}" for what, number in asked.items())
        there = " and ".join(
            f"{free.get(what, 0.0):g} of the cluster's {has.get(what, 0.0):g} {what}"
            for what in asked
        )
        return f"; the next one needs {needs}, and {there} are free"


def cause(message: str) -> str:
    """The end of a message of Serve's without the tracebacks before it."""
    lines = _COLOUR.sub("", message).strip().splitlines()
    if not any("Traceback (most recent call last)" in line for line in lines):
        return "\n".join(lines)
    places = [place for place, line in enumerate(lines) if _EXCEPTION.match(line)]
    return "\n".join(lines[places[-1] :] if places else lines[-1:])
