from __future__ import annotations

from threading import Event
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError

from reward_serve.cli import controller
from reward_serve.cli.controller import ReplicaReports, Replicas, State, cause

WAITS = (
    "Deployment 'judge' in application 'reward' has 1 replicas that have taken more than 30s to "
    "be scheduled. This may be due to waiting for the cluster to auto-scale or for a runtime "
    'environment to be installed. Resources required for each replica: {"CPU": 2.0}.'
)


def state(name: str, message: str = "", **counts: int) -> State:
    """A state as read from Serve's status of an application with one deployment."""
    status = SimpleNamespace(value=name)
    deployment = SimpleNamespace(replica_states=counts, message=message)
    return controller._state(
        SimpleNamespace(status=status, message="", deployments={"judge": deployment})
    )


def test_an_application_is_usable_once_each_deployment_has_a_replica() -> None:
    assert state("DEPLOYING", RUNNING=1, STARTING=1).is_usable
    assert not state("DEPLOYING", STARTING=2).is_usable
    assert not state("DEPLOY_FAILED", RUNNING=1, STARTING=1).is_usable
    assert not State("DEPLOYING", "", {}).is_usable
    assert state("RUNNING").is_usable  # scaled to zero


def test_stopping_replicas_are_not_counted() -> None:
    assert state("RUNNING", RUNNING=1, STOPPING=2).replicas == {"judge": Replicas(1, 1, "")}


def test_missing_replicas_are_reported_once_and_at_each_change() -> None:
    reports = ReplicaReports()
    said = [
        list(reports.lines([each]))
        for each in (
            state("DEPLOYING", STARTING=2),
            state("DEPLOYING", RUNNING=1, STARTING=1),
            state("DEPLOYING", RUNNING=1, STARTING=1),
            state("DEPLOYING", WAITS, RUNNING=1, STARTING=1),
            state("DEPLOYING", f"{WAITS} Again.", RUNNING=1, STARTING=1),
            state("RUNNING", RUNNING=2),
            state("RUNNING", RUNNING=2),
        )
    ]
    assert said == [
        [],
        ["judge: 1 of 2 replicas"],
        [],
        [f"judge: 1 of 2 replicas; {WAITS}"],
        [],
        ["judge: 2 of 2 replicas"],
        [],
    ]


def test_a_first_replica_without_room_is_reported() -> None:
    waiting = state("DEPLOYING", WAITS, STARTING=1)
    assert list(ReplicaReports().lines([waiting])) == [f"judge: 0 of 1 replicas; {WAITS}"]


def test_the_normal_start_of_one_replica_is_not_reported() -> None:
    reports = ReplicaReports()
    assert list(reports.lines([state("DEPLOYING", STARTING=1)])) == []
    assert list(reports.lines([state("RUNNING", RUNNING=1)])) == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("The deployments ['judge'] are UNHEALTHY.", "The deployments ['judge'] are UNHEALTHY."),
        (
            "Deploying app 'reward' failed with exception:\n"
            "Traceback (most recent call last):\n"
            '  File "a.py", line 1, in build\n'
            "    raise ConfigError(x)\n"
            "reward_serve.config.base.ConfigError: args: models: wrong\n",
            "reward_serve.config.base.ConfigError: args: models: wrong",
        ),
        (
            "The deployment failed to start 3 times in a row. Error:\n"
            "\x1b[36mray::ServeReplica:reward:rule.initialize_and_get_metadata()\x1b[39m (pid=1)\n"
            '  File "a.py", line 1, in load\n'
            "RuntimeError: Traceback (most recent call last):\n"
            '  File "b.py", line 2, in load\n'
            "ValueError: rule.function: no module mine\n"
            "  write package.module:name",
            "ValueError: rule.function: no module mine\n  write package.module:name",
        ),
    ],
)
def test_the_cause_of_a_failure_is_shown_without_its_traceback(message: str, expected: str) -> None:
    assert cause(message) == expected


def test_a_slow_controller_is_asked_once_and_its_answer_counts_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, calls = Event(), []

    def status() -> SimpleNamespace:
        calls.append(answer.wait())
        return SimpleNamespace(applications={})

    monkeypatch.setattr("ray.serve.status", status)
    monkeypatch.setattr(controller, "_TIMEOUT_S", 0.05)
    assert controller.states(["reward"])["reward"].name == "UNKNOWN"
    assert controller.states(["reward"])["reward"].name == "UNKNOWN"
    answer.set()
    monkeypatch.setattr(controller, "_TIMEOUT_S", 5.0)
    assert controller.states(["reward"])["reward"].name == "ABSENT"
    assert calls == [True]


def test_shutting_down_ends_once_the_cluster_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Event()
    monkeypatch.setattr("ray.serve.shutdown", ended.wait)
    monkeypatch.setattr(controller, "_POLL_S", 0.05)
    lost = iter([False, False, True])
    try:
        controller.shut_down(lambda: next(lost))
        assert next(lost, None) is None
    finally:
        ended.set()


def test_a_controller_that_died_for_good_has_no_applications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def status() -> None:
        raise ActorDiedError

    monkeypatch.setattr("ray.serve.status", status)
    assert controller.states(["reward"])["reward"].name == "ABSENT"
