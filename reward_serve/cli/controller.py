"""Gets application states from Serve, and shuts it down, without waiting for a dead controller."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from reward_serve.client.loop import in_thread

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_TIMEOUT_S = 2.0
_POLL_S = 0.5
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_EXCEPTION = re.compile(r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Exit|Interrupt)\b(?:\([\w.]*\))?:")

_unanswered: list[Future[Any]] = []  # at most one call, for the next poll


@dataclass(frozen=True)
class Replicas:
    """A deployment's replica counts, and Serve's message about it."""

    running: int
    wanted: int
    message: str


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
    return Replicas(running, wanted, deployment.message)


class ReplicaReports:
    """Reports deployments that are short of replicas, once and at each change."""

    def __init__(self) -> None:
        self._reported: dict[str, tuple[int, int, bool]] = {}

    def lines(self, found: Iterable[State]) -> Iterator[str]:
        """A line for each deployment that changed since the last call, with Serve's message."""
        for name, now in (each for state in found for each in state.replicas.items()):
            about = cause(now.message) if now.running < now.wanted else ""
            key = now.running, now.wanted, bool(about)  # Serve's message changes every 30 s
            is_short = now.running < now.wanted and (now.running > 0 or bool(about))
            if key != self._reported.get(name) and (is_short or name in self._reported):
                self._reported[name] = key
                line = f"{name}: {now.running} of {now.wanted} replicas"
                yield f"{line}; {about}" if about else line


def cause(message: str) -> str:
    """The error at the end of Serve's message, without the tracebacks."""
    lines = _COLOUR.sub("", message).strip().splitlines()
    if not any("Traceback (most recent call last)" in line for line in lines):
        return "\n".join(lines)
    places = [place for place, line in enumerate(lines) if _EXCEPTION.match(line)]
    return "\n".join(lines[places[-1] :] if places else lines[-1:])
