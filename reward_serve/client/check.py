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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reward_serve.client.client import HttpRewardClient
from reward_serve.client.rows import PROBE_RESPONSE
from reward_serve.client.transport import ServiceUnavailableError
from reward_serve.keys import API_KEY_VARIABLE
from reward_serve.schema import Status, hint

_ASKED = {"question": "What is 9 + 9?", "reference": "18"}
_OWN_SCALE = ("classifier", "composite")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``remedy`` is set for problems and warnings.

    A ``warning`` depends on something that cannot be checked here, such as a firewall, and does not
    affect the exit code.
    """

    what: str
    observed: str
    remedy: str | None = None
    warning: bool = False

    @property
    def is_problem(self) -> bool:
        """Whether there is something to mend."""
        return self.remedy is not None and not self.warning

    def __str__(self) -> str:
        remedy = f"\n    {self.remedy}" if self.remedy else ""
        return f"{self.what}: {self.observed}{remedy}"


def examine_service(
    url: str, api_key: str | None = None, requests: int = 0, model: str | None = None
) -> list[Finding]:
    """Check that the service at ``url`` is up, and that ``model``, or each, scores correctly.

    With ``requests``, also measure the latency of single requests and the throughput of a batch of
    this size, of ``model`` or the first.
    """
    findings: list[Finding] = []
    try:
        with HttpRewardClient(url, api_key, timeout_s=30, max_attempts=1) as client:
            models = {str(entry.get("name")): entry for entry in client.models()}
            findings.append(Finding("models", ", ".join(models)))
            if model is not None and model not in models:
                return [*findings, Finding(f"model {model}", "unknown", hint(model, models))]
            names = [model] if model is not None else list(models)
            findings += [_verdict(client, name, models[name]) for name in names]
            if requests and not any(finding.is_problem for finding in findings):
                findings += _measured(client, requests, names[0])
    except ServiceUnavailableError as error:
        remedy = "start it: reward-serve serve"
        if error.status_code == 401:
            remedy = f"set {API_KEY_VARIABLE} to one of the service's keys"
        return [*findings, Finding("service", str(error), remedy)]
    return findings


def _verdict(client: HttpRewardClient, name: str, entry: Mapping[str, Any]) -> Finding:
    what = f"model {name}"
    if not entry.get("ready"):
        remedy = "wait for a replica, or run `serve status`"
        return Finding(what, "not ready", entry.get("outage") or remedy)
    if entry.get("kind") == "teacher":
        (tokens,) = client.logprobs([{"token_ids": [0, 1], "model": name}])
        return Finding(what, f"{tokens.status.value}, {tokens.latency_ms:.0f} ms", tokens.reason)
    result = client.score({**_ASKED, "response": "#### 18", "model": name})
    observed, remedy = f"{result.status.value}, score {result.score}", result.reason or ""
    if result.score is not None and result.score < 0.5 and entry.get("kind") not in _OWN_SCALE:
        remedy = "'#### 18' should be right for reference 18; check model and template"
    needs_more = result.status is Status.INVALID  # other fields than these
    return Finding(what, f"{observed}, {result.latency_ms:.0f} ms", remedy or None, needs_more)


def _measured(client: HttpRewardClient, requests: int, model: str) -> list[Finding]:
    """Median latency of single requests, and the rate of a batch; each text is new to the cache."""
    words = ("".join(random.choices("bcdfghklmnprst", k=12)) for _ in range(10 + requests))
    shared = {**_ASKED, "model": model}
    probes = [{**shared, "response": f"{PROBE_RESPONSE} {word}"} for word in words]
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
    observed = f"{requests - len(failed)} of {requests} ok, {rate:.0f}/s ({by})"
    return [
        Finding("latency", f"median {statistics.median(times_ms):.1f} ms, one at a time"),
        Finding("a batch", observed, failed[0].reason if failed else None),
    ]


def main(more: Callable[[str, int], Finding] | None = None) -> None:
    """Print the findings, and what ``more`` finds with a URL; exit 1 if there is a problem."""
    parser = argparse.ArgumentParser()
    url = os.environ.get("REWARD_SERVE_URL") or "http://127.0.0.1:8000"
    parser.add_argument("--url", "--server-url", default=url, help="the service (%(default)s)")
    parser.add_argument("--requests", type=int, default=64, help="size of the batch (%(default)s)")
    parser.add_argument("--model", help="check this one only, not each")
    given = parser.parse_args()
    key = os.environ.get(API_KEY_VARIABLE)
    findings = examine_service(given.url, key, given.requests, given.model)
    if more and not any(finding.is_problem for finding in findings):
        findings.append(more(given.url, given.requests))
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    sys.exit(any(finding.is_problem for finding in findings))


if __name__ == "__main__":
    main()
