"""Checks a service from a trainer's machine: ``python -m reward_serve.client.check --url URL``.

It needs only the base install. The API key is read from ``REWARD_SERVE_API_KEY``. Exit code 1 if
there is a problem.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass

from reward_serve.client.client import HttpRewardClient
from reward_serve.client.rows import PROBE_RESPONSE
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.keys import API_KEY_VARIABLE
from reward_serve.schema import ScoreResult, Status


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``remedy`` is set for problems and warnings.

    A ``warning`` depends on something that cannot be checked here, such as a firewall, and does not
    affect the exit code.
    """

    what: str
    found: str
    remedy: str | None = None
    warning: bool = False

    def __str__(self) -> str:
        remedy = f"\n    {self.remedy}" if self.remedy else ""
        return f"{self.what}: {self.found}{remedy}"


def examine_service(url: str, api_key: str | None = None, requests: int = 0) -> list[Finding]:
    """Check that the service at ``url`` is up, ready and scores correctly.

    With ``requests``, also measure the latency of single requests and the throughput of a batch of
    this size.
    """
    findings: list[Finding] = []
    try:
        with HttpRewardClient(url, api_key, timeout_s=30, max_attempts=1) as client:
            models = ", ".join(str(model.get("name")) for model in client.models())
            findings.append(Finding("models", models))
            if not client.is_ready():
                remedy = "wait for a replica, or run `serve status`"
                return [*findings, Finding("ready", "no", remedy)]
            findings.append(Finding("ready", "yes"))
            asked = {"question": "What is 9 + 9?", "response": "#### 18", "reference": "18"}
            findings.append(_verdict(client.score(asked)))
            if requests and not findings[-1].remedy:
                findings += _measured(client, requests)
    except ServiceUnavailableError as error:
        remedy = "start it: reward-serve serve"
        if error.status_code == 401:
            remedy = f"set {API_KEY_VARIABLE} to one of the service's keys"
        return [*findings, Finding("service", str(error), remedy)]
    return findings


def _verdict(result: ScoreResult) -> Finding:
    found, remedy = f"{result.status.value}, score {result.score}", result.reason
    if result.score is not None and result.score < 0.5:
        remedy = "'#### 18' should be right for reference 18; check model and template"
    return Finding("a verdict", f"{found}, {result.latency_ms:.0f} ms", remedy)


def _measured(client: HttpRewardClient, requests: int) -> list[Finding]:
    """Median latency of single requests, and the rate of a batch; each text is new to the cache."""
    words = ("".join(random.choices("bcdfghklmnprst", k=12)) for _ in range(10 + requests))
    probes = [{"response": f"{PROBE_RESPONSE} {word}", "reference": "18"} for word in words]
    times_ms = []
    for probe in probes[:10]:
        began = time.perf_counter()
        client.score(probe)
        times_ms.append(1000 * (time.perf_counter() - began))
    began = time.perf_counter()
    results = client.score_batch(probes[10:])
    rate = requests / (time.perf_counter() - began)
    failed = [result for result in results if result.status is not Status.OK]
    by = ", ".join(f"{n} by {source}" for source, n in Counter(r.source for r in results).items())
    found = f"{requests - len(failed)} of {requests} ok, {rate:.0f}/s ({by})"
    return [
        Finding("latency", f"median {statistics.median(times_ms):.1f} ms, one at a time"),
        Finding("a batch", found, failed[0].reason if failed else None),
    ]


def main() -> None:
    """Print the findings; exit 1 if there is a problem."""
    parser = argparse.ArgumentParser(prog="python -m reward_serve.client.check")
    url = os.environ.get("REWARD_SERVE_URL") or "http://127.0.0.1:8000"
    parser.add_argument("--url", default=url, help="the service (%(default)s)")
    parser.add_argument("--requests", type=int, default=64, help="size of the batch (%(default)s)")
    given = parser.parse_args()
    findings = examine_service(given.url, os.environ.get(API_KEY_VARIABLE), given.requests)
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    sys.exit(any(finding.remedy for finding in findings))


if __name__ == "__main__":
    main()
