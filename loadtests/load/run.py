"""One load test from start to figures; runs under locust, since it uses gevent."""

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

from loadtests.load.checking import GRACE_S
from loadtests.load.corpus import Body, Call, Rollouts, letters, rows_of
from loadtests.load.long_rows import long_rows
from loadtests.load.outcomes import Outcomes, tolerated
from loadtests.load.shapes import Bursts, Load
from reward_serve.client import HttpRewardClient, ServiceUnavailableError
from reward_serve.schema import ScoreResult

logger = logging.getLogger(__name__)


class Run:
    """One load test from start to figures.

    Raises:
        ValueError: an argument is invalid.
    """

    def __init__(self, environment: Any) -> None:
        self.options = options = environment.parsed_options
        if options.master or options.worker:
            raise ValueError("master, worker: not supported; replies are counted in one process")
        classes = environment.user_classes
        self.users = [cls for cls in classes if cls.transport == options.transport] or classes
        self.transport = self.users[0].transport
        self.host = environment.host
        if not self.host:
            raise ValueError("host: is missing; set it to the service's URL")
        if options.batch < 1 or options.timeout_s <= 0:
            raise ValueError("batch and timeout-s: must be positive")
        self.load = Load.of(options.shape, options.peak_users, options.duration)
        self.timeout_s: float = options.timeout_s
        self.size = options.batch if self.transport == "http-batch" else 1
        rng = Random(options.seed)
        run = letters(time.time_ns() // 10**6)
        rows = long_rows(Random(options.seed)) if self.load.long else rows_of(Path(options.data))
        self.rollouts = Rollouts(rows, rng, run, self.timeout_s, options.repeats)
        self.calls: deque[Call] = deque()
        if self.load.open_loop:
            self.calls.extend(self.rollouts.bursts(self._bursts(), self.load.duration_s, self.size))
        self.outcomes = Outcomes(tolerated(self.load.shape))
        self.stopping = Event()
        self.failures: list[str] | None = None
        environment.stop_timeout = self.timeout_s + GRACE_S + 1  # lets calls in flight finish

    def users_at(self, elapsed_s: float) -> int | None:
        """Callers at a time of the run; None when it is over and no rollout is due."""
        if self.calls and elapsed_s < self.load.duration_s + GRACE_S:
            return self.load.users
        return self.load.users_at(elapsed_s)

    def finish(self, stats: Any) -> None:
        """Compare the answers with those without load; log and write the figures."""
        self.outcomes.close()
        logger.info("sending every input again without load")

        def log(entry: str, why: str) -> None:
            stats.log_error("POST", entry, why)

        with HttpRewardClient(self.host) as client:

            def ask(bodies: Sequence[Body]) -> Sequence[ScoreResult | None]:
                try:
                    return client.score_batch(bodies)
                except ServiceUnavailableError as error:
                    logger.warning("%s", error)
                    return [None] * len(bodies)

            self.outcomes.compare_without_load(ask, log)
        self.failures = self.outcomes.failures(self.options.max_absent)
        summary = {**self._parameters(), **self.outcomes.summary(), "failed": self.failures}
        text = json.dumps(summary, indent=1) + "\n"
        logger.info("%s", text)
        for failure in self.failures:
            logger.error("failed: %s", failure)
        if self.options.summary:
            Path(self.options.summary).write_text(text, encoding="utf-8")

    def abort(self) -> None:
        """End the run without figures."""
        self.failures = ["aborted"]

    def _bursts(self) -> Bursts:
        asked = self.options
        return Bursts(
            asked.prompts, asked.samples, asked.period, asked.rollout_seconds, asked.sigma
        )

    def _parameters(self) -> dict[str, Any]:
        bursts = vars(self._bursts()) if self.load.open_loop else {}
        return {
            **vars(self.load),
            **bursts,
            "transport": self.transport,
            "samples_a_call": self.size,
            "repeats": self.options.repeats,
            "timeout_s": self.timeout_s,
            "seed": self.options.seed,
            "data": "long_rows" if self.load.long else Path(self.options.data).name,
        }
