"""A Tinker endpoint that is health-checked while a call waits.

The client retries for minutes if nothing answers, and forever if a result never arrives.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import httpx
import tinker

T = TypeVar("T")

os.environ.setdefault("TINKER_TELEMETRY", "0")  # the engine discards it

API_KEY = "tml-local"  # required by the client, not checked by SkyRL's engine


class EndpointError(RuntimeError):
    """The endpoint is gone or too slow; a run can resume from its last state with another."""


class Endpoint:
    """Where the policy is trained and sampled.

    Args:
        url: its URL.
        ended: whether its process is known to have ended.
        gone_after_s: seconds without a successful health check until it counts as gone.
        limit_s: time limit of one call, in seconds.
        poll_s: seconds between health checks.
    """

    def __init__(
        self,
        url: str,
        ended: Callable[[], bool] = lambda: False,
        gone_after_s: float = 60.0,
        limit_s: float = 900.0,
        poll_s: float = 5.0,
    ) -> None:
        self.url = url
        self._ended = ended
        self._gone_after_s = gone_after_s
        self._limit_s = limit_s
        self._poll_s = poll_s

    def wait(self, call: Callable[[], T]) -> T:
        """Run a client call in a thread and return its result.

        Raises:
            EndpointError: the endpoint is gone, or the call takes too long; its thread keeps
                running.
        """
        future: Future[T] = Future()
        threading.Thread(target=_settle, args=(future, call), daemon=True).start()
        self.until(lambda timeout_s: bool(wait([future], timeout_s).done))
        try:
            return future.result()
        except (tinker.APIConnectionError, TimeoutError) as error:
            raise EndpointError(f"{self.url}: {type(error).__name__}: {error}") from error

    def until(self, done: Callable[[float], bool]) -> None:
        """Wait until ``done``, which itself waits for up to the given number of seconds.

        Raises:
            EndpointError: the endpoint is gone, or waiting takes too long.
        """
        began = answered = time.monotonic()
        while not done(self._poll_s):
            if self._ended():
                raise EndpointError(f"{self.url}: the policy's engine ended")
            if answers(self.url):
                answered = time.monotonic()
            if time.monotonic() - answered > self._gone_after_s:
                raise EndpointError(f"{self.url}: no answer for {self._gone_after_s:.0f} s")
            if time.monotonic() - began > self._limit_s:
                raise EndpointError(f"{self.url}: a call took more than {self._limit_s:.0f} s")


def answers(url: str) -> bool:
    """Whether a Tinker endpoint is healthy."""
    try:
        return httpx.get(f"{url}/api/v1/healthz", timeout=5).is_success
    except httpx.HTTPError:
        return False


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
