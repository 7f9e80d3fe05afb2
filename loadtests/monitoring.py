"""A Prometheus scrapes a loaded service: panels have data, and alerts fire only during faults.

``PROMETHEUS=PATH python -m loadtests.monitoring``: all that panels show, without faults and while
replicas are killed; then the scenario ``faults``. As that lasts a minute, each alert's ``for`` is
``--lasts``. Exit code 1 if a panel is empty, an alert pending without a fault, or silent in one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import typer

from deployments.local import ROOT, console, free_port
from loadtests.chaos import processes
from loadtests.chaos.scenarios.stand_in import ASKED, RATE, injected
from loadtests.chaos.target import stand_in_service
from loadtests.cluster import served
from loadtests.soak import watched
from reward_serve.client import HttpRewardClient

_FOLDER = ROOT / "deploy" / "monitoring"
_FIRING = 'ALERTS{alertname="%s",alertstate="firing"}'
_FEW = {"resources": {"num_cpus": 0.1}}
_MODELS: list[dict[str, Any]] = [
    {"name": "rule", "kind": "rule", "rule": {"verifier": "gsm8k"}, **_FEW},
    {"name": "judge", "kind": "judge", "judge": {"audit_rate": 1.0}, "group": {}, "teacher": True},
    {"name": "both", "kind": "composite", "composite": {"members": ["judge", "rule"]}, **_FEW},
    {"name": "cascade", "kind": "cascade", "cascade": {"members": ["rule", "judge"]}, **_FEW},
]


def main(lasts: str = "10s") -> None:
    """Scrape, load, break, and print what was found; LASTS is the `for` of each alert."""
    with (
        served(_MODELS, {"compatible_with": ["openai"]}, num_cpus=4) as url,
        HttpRewardClient(url) as client,
        _prometheus(lasts) as get,
        watched(lambda: _send(client, url), 0.05),
    ):
        time.sleep(90)  # of which a panel shows the last minute
        panels, quiet = _panels(get), get("ALERTS")
        console.print(panels, quiet)
        for _ in range(2):
            processes.kill(pid := client.models()[0]["pid"])
            _wait(lambda old=pid: client.models()[0].get("pid", old) != old)
        killed = _wait(lambda: get(_FIRING % "RewardServeReplicasReplaced"))
    with stand_in_service(256, 0.02, RATE) as target, _prometheus(lasts) as get:
        asyncio.run(injected(target, ASKED))
        faults = _wait(lambda: get(_FIRING % "RewardServeAbsentVerdicts"))
    console.print(killed, faults)
    raise typer.Exit(int(bool(quiet) or not (all(panels.values()) and killed and faults)))


def _wait(ask: Callable[..., Any]) -> Any:
    """The answer once it is not empty, or the last one."""
    ends = time.monotonic() + 120
    while not (answer := ask()) and time.monotonic() < ends:
        time.sleep(1)
    return answer


@contextmanager
def _prometheus(lasts: str) -> Iterator[Callable[[str], Any]]:
    """A Prometheus with the committed files on Ray's nodes, which a file names as Ray's would."""
    import ray
    from ray._private.metrics_agent import PrometheusServiceDiscoveryWriter

    with tempfile.TemporaryDirectory() as name:
        PrometheusServiceDiscoveryWriter(ray.get_runtime_context().gcs_address, name).write()
        for file in ("prometheus.yaml", "rules.yaml"):
            text = (_FOLDER / file).read_text(encoding="utf-8")
            text = re.sub(r"(?m) for: \w+$", f" for: {lasts}", text)
            (Path(name) / file).write_text(text.replace("/tmp/ray/session_latest", name))
        listen = f"127.0.0.1:{free_port()}"
        command = [os.environ.get("PROMETHEUS", "prometheus"), f"--web.listen-address={listen}"]
        command += [f"--config.file={name}/prometheus.yaml", f"--storage.tsdb.path={name}/data"]

        def get(query: str) -> Any:
            params = {"query": f"({query}) < Inf"}  # nor NaN
            reply = httpx.get(f"http://{listen}/api/v1/query", params=params)
            return reply.raise_for_status().json()["data"]["result"]

        with subprocess.Popen([*command, "--log.level=error"]) as process:
            try:
                yield get
            finally:
                process.terminate()


def _panels(get: Callable[[str], Any]) -> dict[str, int]:
    """How many series each query of the dashboard has."""
    text = (_FOLDER / "reward-serve.json").read_text(encoding="utf-8")
    text = re.sub(r"\$(application|deployment)", ".*", text.replace("$__rate_interval", "1m"))
    return {
        f"{panel['title']}: {target['legendFormat']}": len(get(target["expr"]))
        for panel in json.loads(text)["panels"]
        for target in panel["targets"]
    }


def _send(client: HttpRewardClient, url: str) -> dict[str, float]:
    """Send one of each of what the metrics count."""
    number = time.monotonic_ns()
    prose, mark = f"I counted {number // 2**32} times, and it is 18", f"#### {18 + number % 2}"
    asked = [(mark, "rule"), (mark, "judge"), (mark, "both"), (prose, "judge"), (prose, "cascade")]
    client.score_batch([{"response": r, "reference": "18", "model": m} for r, m in asked])
    client.score_group({"responses": [prose, mark], "question": "9 * 2?", "model": "judge"})
    client.logprobs([{"token_ids": [number % 1000, 1, 2], "model": "judge"}])
    chat = {"model": "judge", "messages": [{"role": "user", "content": prose}], "max_tokens": 1}
    httpx.post(f"{url}/v1/chat/completions", json=chat, timeout=60)
    return {}


if __name__ == "__main__":
    typer.run(main)
