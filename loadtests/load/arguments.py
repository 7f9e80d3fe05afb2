"""Command-line arguments of the load tests, in addition to locust's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loadtests.load.shapes import SHAPES

TRANSPORTS = ("http-single", "http-batch")

_SAMPLES = Path(__file__).parents[2] / "examples" / "gsm8k" / "samples.jsonl"


def add_arguments(parser: Any) -> None:
    """Add the load tests' arguments; each is also an environment variable and a web field."""

    def add(name: str, default: str | float, text: str, **settings: Any) -> None:
        variable = "LOADTEST_" + name.upper().replace("-", "_")
        settings.setdefault("type", type(default))
        parser.add_argument(f"--{name}", env_var=variable, default=default, help=text, **settings)

    add("shape", "steady", "load over time", choices=SHAPES)
    add("transport", "http-single", "how callers send requests", choices=TRANSPORTS)
    add("peak-users", 0, "callers at the peak, each at most one call a second; 0: by shape")
    add("duration", 0.0, "seconds; 0: by shape")
    add("batch", 8, "http-batch: samples per call")
    add("prompts", 4, "bursts: prompts per batch")
    add("samples", 8, "bursts: samples per prompt")
    add("period", 10.0, "bursts: seconds between batches")
    add("rollout-seconds", 8.0, "bursts: seconds of a batch's longest rollout")
    add("sigma", 0.5, "bursts: sigma of the log-normal rollout lengths")
    add("repeats", 0.0, "share of a group's samples that repeat another sample of it")
    add("data", str(_SAMPLES), "labelled rows, JSON lines; long_rollouts generates its own")
    add("seed", 0, "random seed")
    add("timeout-s", 60.0, "each request's deadline")
    add("max-absent", 0.0, "share of requests that may end without a score")
    add("summary", "", "JSON file for the figures", include_in_web_ui=False)
