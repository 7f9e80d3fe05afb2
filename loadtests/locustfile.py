"""Load tests of a running service, for locust: ``make loadtest SHAPE=grpo_burst URL=...``.

    locust -f loadtests/locustfile.py --host http://127.0.0.1:8000 --shape spike

Callers ask singles or batches over HTTP, or by handle. Every reply is checked against its request
(``loadtests.load.checking``). After the load each input is asked once more in peace, past the
service's cache, and the answers must agree, but where the probability in peace lies within 0.02 of
one half. A judge has an honest error rate: that an answer differs from the row's own label fails
no run, and is told as ``agreement_with_labels``. Inputs bear a mark each, so that neither the cache
nor the engine's prefix cache has seen them before; ``--repeats`` asks some again, which the cache
may answer.

A run fails (exit code 1) on any ``wrong`` or ``lost`` answer, on one that could not be checked, and
when more than ``--max-absent`` came to no score, for which ``overloaded`` does not count in
``spike``: there the service sheds by design. Latency runs from the moment a request is due.
"""

from __future__ import annotations

import logging
import time
from typing import Any, ClassVar

from gevent.pool import Group
from locust import FastHttpUser, LoadTestShape, User, constant_pacing, events, task
from locust.stats import CSV_STATS_INTERVAL_SEC

from loadtests.load.arguments import add_arguments
from loadtests.load.checking import GRACE_S, Checked, check, check_batch, in_time, lost
from loadtests.load.corpus import Body, Sample
from loadtests.load.handle_link import LostError
from loadtests.load.run import Run
from loadtests.load.shapes import TICK_S

logger = logging.getLogger(__name__)

_SPAWNED_PER_S = 100.0
_CONNECTIONS = 4096

logging.getLogger("httpx").setLevel(logging.WARNING)

events.init_command_line_parser.add_listener(add_arguments)


class Shape(LoadTestShape):
    """The shape that ``--shape`` names."""

    run: Run | None = None

    def reset_time(self) -> None:
        """A test begins."""
        super().reset_time()
        self.run = None

    def tick(self) -> tuple[int, float, list[type[User]]] | None:
        """Callers wanted now; the clock runs from when the test is prepared."""
        assert self.runner is not None
        if self.run is None:
            try:
                self.run = Run(self.runner.environment)
            except (ValueError, LostError) as error:
                logger.error("%s", error)
                self.runner.environment.process_exit_code = 2
                return None
            super().reset_time()
        wanted = self.run.wanted(self.get_run_time())
        return None if wanted is None else (wanted, _SPAWNED_PER_S, self.run.users)


class Caller(User):
    """Asks once a second, or as soon as it is answered; in an open loop, as rollouts end."""

    abstract = True
    transport: ClassVar[str]
    wait_time = constant_pacing(TICK_S)

    def __init__(self, environment: Any) -> None:
        self.test: Run = environment.shape_class.run
        super().__init__(environment)

    @task
    def ask(self) -> None:
        """One call; in an open loop all of them, each when it is due."""
        run = self.test
        if not run.load.open_loop:
            self.send(run.rollouts.group(run.size), time.perf_counter())
            return
        began, under_way = time.perf_counter(), Group()
        while run.calls:
            due = began + run.calls[0].due_s
            if run.stopping.wait(max(0.0, due - time.perf_counter())):
                break
            under_way.spawn(self.send, run.calls.popleft().samples, due)
        under_way.join()

    def send(self, samples: list[Sample], due: float) -> None:
        """Ask for samples and check what comes; ``due`` is the clock's time they were to leave."""
        self.test.tally.ask(samples, time.perf_counter())
        self.exchange(samples, due)

    def exchange(self, samples: list[Sample], due: float) -> None:
        """``send``, over one transport."""
        raise NotImplementedError

    def taken(
        self, samples: list[Sample], found: list[Checked], due: float, entry: str
    ) -> tuple[float, str | None]:
        """Count the replies; the wait in ms, and what locust is to call the failure."""
        run, now = self.test, time.perf_counter()
        found = [in_time(each, now - due, run.timeout_s) for each in found]
        for sample, checked in zip(samples, found, strict=True):
            run.tally.take(sample, checked, 1000 * (now - due), now, entry)
        return 1000 * (now - due), next((each.failure for each in found if each.failure), None)


class HttpCaller(Caller, FastHttpUser):
    """Over HTTP."""

    abstract = True
    path: ClassVar[str]
    concurrency = _CONNECTIONS

    def __init__(self, environment: Any) -> None:
        self.network_timeout = environment.shape_class.run.timeout_s + GRACE_S
        super().__init__(environment)

    def exchange(self, samples: list[Sample], due: float) -> None:
        """Post, and check the reply."""
        with self.client.post(self.path, json=self.body(samples), catch_response=True) as reply:
            if reply.status_code:
                found = self.checked(samples, _decoded(reply), reply.status_code)
            else:
                found = [lost(type(reply.error).__name__)] * len(samples)
            waited_ms, failure = self.taken(samples, found, due, self.path)
            reply.request_meta["response_time"] = waited_ms
            reply.failure(failure) if failure else reply.success()

    def body(self, samples: list[Sample]) -> Body:
        """What is posted."""
        raise NotImplementedError

    def checked(self, samples: list[Sample], reply: Any, code: int) -> list[Checked]:
        """What the reply is to each sample."""
        raise NotImplementedError


class HttpSingleUser(HttpCaller):
    """One request a call."""

    transport = "http-single"
    path = "/v1/score"

    def body(self, samples: list[Sample]) -> Body:
        """The request."""
        return samples[0].body

    def checked(self, samples: list[Sample], reply: Any, code: int) -> list[Checked]:
        """The one result."""
        return [check(samples[0], reply, code)]


class HttpBatchUser(HttpCaller):
    """A group's samples a call."""

    transport = "http-batch"
    path = "/v1/score/batch"

    def body(self, samples: list[Sample]) -> Body:
        """The batch."""
        return {"requests": [sample.body for sample in samples]}

    def checked(self, samples: list[Sample], reply: Any, code: int) -> list[Checked]:
        """A result for each, in order."""
        return check_batch(samples, reply, code)


class HandleUser(Caller):
    """By handle, through the process that has Ray."""

    transport = "handle"

    def exchange(self, samples: list[Sample], due: float) -> None:
        """Ask, check, and tell locust."""
        link, timeout_s = self.test.link, self.test.timeout_s + GRACE_S
        assert link is not None
        try:
            found = check(samples[0], link.ask(samples[0].body, timeout_s))
        except LostError as error:
            found = lost(str(error))
        waited_ms, failure = self.taken(samples, [found], due, "score")
        self.environment.events.request.fire(
            request_type="handle",
            name="score",
            response_time=waited_ms,
            response_length=0,
            exception=CheckError(failure) if failure else None,
            context={},
        )


class CheckError(Exception):
    """A failure's name in locust's table."""


@events.test_stopping.add_listener
def stop_sending(environment: Any, **_: Any) -> None:
    """Nothing more is sent; what is under way is awaited."""
    if environment.shape_class.run:
        environment.shape_class.run.stopping.set()


@events.test_stop.add_listener
def finish(environment: Any, **_: Any) -> None:
    """Tell the figures; the exit code is theirs."""
    run: Run | None = environment.shape_class.run
    if run is None or run.faults is not None:
        return
    try:
        run.finish(environment.stats)
    finally:
        run.close()
        environment.process_exit_code = 0 if run.faults == [] else 1
    if environment.parsed_options.csv_prefix:
        time.sleep(2 * CSV_STATS_INTERVAL_SEC)  # locust writes them each second, and not at the end


@events.quitting.add_listener
def leave(environment: Any, **_: Any) -> None:
    """Whatever way it ends: a run without figures has failed, and leaves no process."""
    run: Run | None = environment.shape_class.run
    if run is not None and run.faults is None:
        run.cut_short()
        environment.process_exit_code = 1


def _decoded(reply: Any) -> Any:
    try:
        return reply.json()
    except ValueError:
        return None
