"""Read the service's metrics from the addresses that Prometheus scrapes."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

MAX_BYTES = 8 * 2**20
"""Maximum size of one node's metrics."""

WINDOW_S = 60.0
"""Period of rates and latencies; Ray exports metrics every ten seconds."""

_TIMEOUT_S = 5.0
_KEPT_S = 900.0
_EVERY_S = 2.0
_NAME = re.compile(r"(?:ray_)?reward_serve_(requests|cache|items|latency_seconds|score)\w*[ {]")
_PREFIX = re.compile(r"^(?:ray_)?reward_serve_")


def _totals() -> dict[Any, float]:
    return defaultdict(float)


@dataclass
class Reading:
    """Totals at one time, by deployment.

    Attributes:
        at: monotonic time in seconds.
        statuses: requests by deployment and status.
        sources: requests by deployment and source.
        items: items running or queued.
        replicas: names of the replicas that report.
        cache: cache hits and misses.
        buckets: cumulative latency counts by upper bound in seconds.
        faults: reasons by address that could not be read.
    """

    at: float = 0.0
    statuses: dict[tuple[str, str], float] = field(default_factory=_totals)
    sources: dict[tuple[str, str], float] = field(default_factory=_totals)
    items: dict[str, float] = field(default_factory=_totals)
    replicas: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    cache: dict[tuple[str, str], float] = field(default_factory=_totals)
    buckets: dict[tuple[str, float], float] = field(default_factory=_totals)
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def deployments(self) -> list[str]:
        """The deployments that report any metric."""
        return sorted({*self.replicas, *self.items, *(name for name, _ in self.statuses)})

    def total(self, deployment: str | None = None) -> float:
        """Completed requests of one deployment, or of all."""
        return sum(
            count for (name, _), count in self.statuses.items() if deployment in (None, name)
        )


class Scraper:
    """Reads metrics and keeps the readings of 15 minutes.

    Args:
        urls: one for each node, such as ``http://127.0.0.1:9100/metrics``.

    Raises:
        ValueError: a URL is not HTTP.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise ValueError(
                    f"--metrics: {url!r} is not an HTTP URL; give http://HOST:PORT/metrics"
                )
        self.urls = list(urls)
        self.readings: deque[Reading] = deque()
        self._reading = asyncio.Lock()

    async def read(self) -> Reading:
        """Read the metrics, or return the last reading if it is recent."""
        async with self._reading:  # several pages ask at once
            if self.readings and time.monotonic() - self.readings[-1].at < _EVERY_S:
                return self.readings[-1]
            reading = await self._read()
            self.readings.append(reading)
            while reading.at - self.readings[0].at > _KEPT_S:
                self.readings.popleft()
            return reading

    def rate(self, deployment: str | None = None) -> float | None:
        """Verdicts/s over the last minute; None with fewer than two readings."""
        now, before = self._window()
        if now is None or before is None or now.at <= before.at:
            return None
        return max(0.0, now.total(deployment) - before.total(deployment)) / (now.at - before.at)

    def rates(self) -> list[float | None]:
        """Verdicts/s between readings at least ten seconds apart, oldest first."""
        found: list[float | None] = []
        last: Reading | None = None
        for reading in self.readings:
            if reading.faults:
                last = None
                found.append(None)
            elif last is None:
                last = reading
            elif reading.at - last.at >= 10:
                done = reading.total() - last.total()
                found.append(max(0.0, done) / (reading.at - last.at))
                last = reading
        return found[-90:]

    def latency(self, deployment: str, share: float) -> float | None:
        """A latency quantile in seconds: of the last minute, or of all time if it was idle."""
        now, before = self._window()
        if now is None:
            return None
        recent = _buckets(now, deployment)
        if before is not None:
            earlier = _buckets(before, deployment)
            fresh = {bound: count - earlier.get(bound, 0.0) for bound, count in recent.items()}
            if max(fresh.values(), default=0.0) > 0:
                recent = fresh
        return quantile(recent, share)

    async def _read(self) -> Reading:
        reading = Reading(time.monotonic())
        async with httpx.AsyncClient(timeout=_TIMEOUT_S) as client:
            for url in self.urls:
                try:
                    add(reading, await _text(client, url))
                except (httpx.HTTPError, ValueError) as error:
                    reading.faults[url] = str(error) or type(error).__name__
        return reading

    def _window(self) -> tuple[Reading | None, Reading | None]:
        good = [reading for reading in self.readings if not reading.faults]
        if not good:
            return None, None
        inside = [reading for reading in good if good[-1].at - reading.at <= WINDOW_S]
        return good[-1], inside[0] if len(inside) > 1 else None


def add(reading: Reading, exposition: str) -> None:
    """Add a node's metrics to a reading.

    Raises:
        ValueError: they are not in Prometheus's text format.
    """
    lines = (line for line in exposition.splitlines() if _NAME.match(line))
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if math.isfinite(sample.value):
                name = _PREFIX.sub("", sample.name)
                _count(reading, name, sample.labels, sample.value)


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """A quantile of cumulative buckets, interpolated linearly; None if they are empty."""
    ordered = sorted(buckets.items())
    total = ordered[-1][1] if ordered else 0.0
    if total <= 0:
        return None
    below, low = 0.0, 0.0
    for bound, count in ordered:
        if count >= share * total:
            if math.isinf(bound):
                return low
            within = (share * total - below) / (count - below) if count > below else 1.0
            return low + (bound - low) * within
        below, low = count, bound
    return low


def _count(reading: Reading, name: str, labels: Mapping[str, str], value: float) -> None:
    deployment = labels.get("deployment", "")
    if name.startswith("requests"):
        reading.statuses[deployment, labels.get("status", "")] += value
        reading.sources[deployment, labels.get("source", "")] += value
    elif name == "items":
        reading.items[deployment] += value
        reading.replicas[deployment].add(labels.get("replica", ""))
    elif name.startswith("cache"):
        reading.cache[deployment, labels.get("outcome", "")] += value
    elif name == "latency_seconds_bucket":
        bound = float(labels.get("le", "inf"))
        reading.buckets[deployment, bound] += value


def _buckets(reading: Reading, deployment: str) -> dict[float, float]:
    return {bound: n for (name, bound), n in reading.buckets.items() if name == deployment}


async def _text(client: httpx.AsyncClient, url: str) -> str:
    parts: list[bytes] = []
    async with client.stream("GET", url) as reply:
        reply.raise_for_status()
        async for part in reply.aiter_bytes():
            parts.append(part)
            if sum(map(len, parts)) > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES // 2**20} MiB of metrics")
    return b"".join(parts).decode("utf-8", "replace")
