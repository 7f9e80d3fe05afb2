"""Load tests of a running service, for locust.

    python -m loadtests.load --shape grpo_burst --url http://127.0.0.1:8000
    locust -f loadtests/locustfile.py --host http://127.0.0.1:8000 --shape spike

Callers send single requests or batches. Every reply is checked against its request
(``loadtests.load.outcomes``). After the load each input is sent again without load, bypassing the
service's cache, and the answers must agree, unless the probability without load is within 0.02 of
one half. Each input has a unique mark, so that neither the verdict cache nor the engine's prefix
cache has seen it.

A run fails (exit code 1) on any ``wrong`` or ``lost`` answer, on one that could not be checked, and
if more than ``--max-absent`` of the requests end without a score. In ``spike`` ``overloaded`` is
not counted, since the service sheds load by design. An answer that differs from the row's label
does not fail the run, since a judge errs; ``agreement_with_labels`` reports it. Latency is measured
from the moment a request is due.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from gevent.pool import Group
from locust import FastHttpUser, LoadTestShape, User, constant_pacing, events, task
from locust.stats import CSV_STATS_INTERVAL_SEC

from loadtests.load.corpus import Body, Sample
from loadtests.load.outcomes import GRACE_S, Checked, check, check_batch
from loadtests.load.run import Run, add_arguments

logger = logging.getLogger(__name__)

_SPAWNED_PER_S = 100.0
_CONNECTIONS = 4096
_TICK_S = 1.0  # between a caller's requests, or longer if the answer takes longer

logging.getLogger("httpx").setLevel(logging.WARNING)

events.init_command_line_parser.add_listener(add_arguments)


class Shape(LoadTestShape):
    """The shape that ``--shape`` names."""

    run: Run | None = None

    def reset_time(self) -> None:
        """Start a new test."""
        super().reset_time()
        self.run = None

    def tick(self) -> tuple[int, float, list[type[User]]] | None:
        """Number of callers now; the clock starts when the test is prepared."""
        assert self.runner is not None
        if self.run is None:
            try:
                self.run = Run(self.runner.environment)
            except ValueError as error:
                logger.error("%s", error)
                self.runner.environment.process_exit_code = 2
                return None
            super().reset_time()
        users = self.run.users_at(self.get_run_time())
        return None if users is None else (users, _SPAWNED_PER_S, [Caller])


class Caller(FastHttpUser):
    """Sends once a second, or when the last answer came; in an open loop, as rollouts end."""

    concurrency = _CONNECTIONS
    wait_time = constant_pacing(_TICK_S)

    def __init__(self, environment: Any) -> None:
        self.test: Run = environment.shape_class.run
        self.network_timeout = self.test.timeout_s + GRACE_S
        super().__init__(environment)

    @task
    def ask(self) -> None:
        """Send one call; in an open loop all calls, each when it is due."""
        run = self.test
        if not run.open_loop:
            if not run.stopping.is_set():  # locust ends callers that were waiting
                self.send(run.rollouts.group(run.size), time.perf_counter())
            return
        began, in_flight = time.perf_counter(), Group()
        while run.calls:
            due = began + run.calls[0].due_s
            if run.stopping.wait(max(0.0, due - time.perf_counter())):
                break
            in_flight.spawn(self.send, run.calls.popleft().samples, due)
        in_flight.join()

    def send(self, samples: list[Sample], due: float) -> None:
        """Send samples and check the reply; ``due`` is when they should have been sent."""
        run = self.test
        run.outcomes.ask(samples, time.perf_counter())
        bodies = [sample.body for sample in samples]
        body: Body = {"requests": bodies} if run.size > 1 else bodies[0]
        with self.client.post(run.path, json=body, catch_response=True) as reply:
            code = reply.status_code
            if not code:
                replies = [Checked("lost", type(reply.error).__name__)] * len(samples)
            elif run.size > 1:
                replies = check_batch(samples, _decoded(reply), code)
            else:
                replies = [check(samples[0], _decoded(reply), code)]
            now = time.perf_counter()
            if now - due > run.timeout_s + GRACE_S:
                replies = [Checked("lost", "late")] * len(samples)
            latency_ms = 1000 * (now - due)
            for sample, checked in zip(samples, replies, strict=True):
                run.outcomes.record(sample, checked, latency_ms, now)
            reply.request_meta["response_time"] = latency_ms
            failure = next((item.failure for item in replies if item.failure), None)
            reply.failure(failure) if failure else reply.success()


@events.test_stopping.add_listener
def stop_sending(environment: Any, **_: Any) -> None:
    """Send nothing more; locust waits for calls in flight."""
    if environment.shape_class.run:
        environment.shape_class.run.stopping.set()


@events.test_stop.add_listener
def finish(environment: Any, **_: Any) -> None:
    """Report the figures and set the exit code."""
    run: Run | None = environment.shape_class.run
    if run is None or run.failures is not None:
        return
    try:
        run.finish(environment.stats)
    finally:
        environment.process_exit_code = 0 if run.failures == [] else 1
    if environment.parsed_options.csv_prefix:
        time.sleep(2 * CSV_STATS_INTERVAL_SEC)  # locust writes CSV every second, not at the end


@events.quitting.add_listener
def abort_unfinished(environment: Any, **_: Any) -> None:
    """Fail a run without figures."""
    run: Run | None = environment.shape_class.run
    if run is not None and run.failures is None:
        run.failures = ["aborted"]
        environment.process_exit_code = 1


def _decoded(reply: Any) -> Any:
    try:
        return reply.json()
    except ValueError:
        return None
