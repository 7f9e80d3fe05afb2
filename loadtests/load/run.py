"""One load test: arguments, load over time, start and figures; runs under locust, on gevent."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from gevent.event import Event

from loadtests.load import SHAPES
from loadtests.load.corpus import Body, Bursts, Call, Rollouts, letters, long_rows, rows_of
from loadtests.load.outcomes import GRACE_S, Outcomes
from reward_serve.client import HttpRewardClient, ServiceUnavailableError
from reward_serve.schema import ScoreResult, Status

logger = logging.getLogger(__name__)

SAMPLES = Path(__file__).parents[2] / "examples" / "gsm8k" / "samples.jsonl"

_PEAK_USERS = {"steady": 8, "spike": 64}
_DURATION_S = 60.0
_SPIKE = (0.4, 0.6)
_CALM_SHARE = 8


def add_arguments(parser: Any) -> None:
    """Add the load tests' arguments to locust's; each is also a field of its web page."""

    def add(name: str, default: str | float, text: str, **settings: Any) -> None:
        settings.setdefault("type", type(default))
        parser.add_argument(f"--{name}", default=default, help=text, **settings)

    add("shape", "steady", "load over time", choices=SHAPES)
    add("peak-users", 0, "callers at the peak, each at most one call a second; 0: by shape")
    add("duration", _DURATION_S, "seconds")
    add("batch", 1, "samples per call; 1: single requests")
    add("prompts", 4, "bursts: prompts per batch")
    add("samples", 8, "bursts: samples per prompt")
    add("period", 10.0, "bursts: seconds between batches")
    add("rollout-seconds", 8.0, "bursts: seconds of a batch's longest rollout")
    add("data", str(SAMPLES), "labelled rows, JSON lines; long_rollouts generates its own")
    add("seed", 0, "random seed")
    add("timeout-s", 60.0, "each request's deadline")
    add("max-absent", 0.0, "share of requests that may end without a score")
    add("summary", "", "JSON file for the figures", include_in_web_ui=False)


def users_at(shape: str, peak: int, share: float) -> int | None:
    """Callers when a share of the run is over; None at its end.

    ``spike`` has all callers in the middle fifth of the run and an eighth of them before and after.
    """
    if share >= 1:
        return None
    if shape == "spike" and not _SPIKE[0] <= share < _SPIKE[1]:
        return max(1, peak // _CALM_SHARE)
    return peak


class Run:
    """One load test from start to figures.

    Raises:
        ValueError: an argument is invalid.
    """

    def __init__(self, environment: Any) -> None:
        self.options = options = environment.parsed_options
        if options.master or options.worker:
            raise ValueError("master, worker: not supported; replies are counted in one process")
        self.host = environment.host
        if not self.host:
            raise ValueError("host: is missing; set it to the service's URL")
        if options.batch < 1 or min(options.timeout_s, options.duration) <= 0:
            raise ValueError("batch, timeout-s and duration: must be positive")
        if options.peak_users < 0:
            raise ValueError("peak-users: must not be negative")
        shape = options.shape
        self.open_loop = shape not in _PEAK_USERS
        """Whether requests arrive regardless of earlier answers; then one caller sends them all."""
        self._peak = 1 if self.open_loop else options.peak_users or _PEAK_USERS[shape]
        self.timeout_s: float = options.timeout_s
        self.size: int = options.batch
        self.path = "/v1/score/batch" if self.size > 1 else "/v1/score"
        self._is_long = shape == "long_rollouts"
        rows = long_rows(Random(options.seed)) if self._is_long else rows_of(Path(options.data))
        name = letters(time.time_ns() // 10**6)
        self.rollouts = Rollouts(rows, Random(options.seed), name, self.timeout_s)
        self.calls: deque[Call] = deque()
        if self.open_loop:
            bursts = Bursts(
                options.prompts, options.samples, options.period, options.rollout_seconds
            )
            self.calls.extend(self.rollouts.bursts(bursts, options.duration, self.size))
        # In a spike the service is meant to shed load.
        shed = [Status.OVERLOADED] if shape == "spike" else []
        self.outcomes = Outcomes(frozenset(shed))
        self.stopping = Event()
        self.failures: list[str] | None = None
        environment.stop_timeout = self.timeout_s + GRACE_S + 1  # lets calls in flight finish

    def users_at(self, elapsed_s: float) -> int | None:
        """Callers at a time of the run; None when it is over and no rollout is due."""
        if self.calls and elapsed_s < self.options.duration + GRACE_S:
            return 1
        return users_at(self.options.shape, self._peak, elapsed_s / self.options.duration)

    def finish(self, stats: Any) -> None:
        """Compare the answers with those without load; log and write the figures."""
        self.outcomes.close()
        logger.info("sending every input again without load")
        with HttpRewardClient(self.host) as client:

            def ask(bodies: Sequence[Body]) -> Sequence[ScoreResult | None]:
                try:
                    return client.score_batch(bodies)
                except ServiceUnavailableError as error:
                    logger.warning("%s", error)
                    return [None] * len(bodies)

            def log(why: str) -> None:
                stats.log_error("POST", self.path, why)

            self.outcomes.compare_without_load(ask, log)
        self.failures = self.outcomes.failures(self.options.max_absent)
        summary = {**self._parameters(), **self.outcomes.summary(), "failed": self.failures}
        text = json.dumps(summary, indent=1) + "\n"
        logger.info("%s", text)
        for failure in self.failures:
            logger.error("failed: %s", failure)
        if self.options.summary:
            Path(self.options.summary).write_text(text, encoding="utf-8")

    def _parameters(self) -> dict[str, Any]:
        names = ["shape", "duration", "batch", "timeout_s", "seed"]
        if self.open_loop:
            names += ["prompts", "samples", "period", "rollout_seconds"]
        return {
            **{name: getattr(self.options, name) for name in names},
            "users": self._peak,
            "data": "long_rows" if self._is_long else Path(self.options.data).name,
        }
