"""The load tests' arguments, beside locust's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loadtests.load.shapes import SHAPES

TRANSPORTS = ("http-single", "http-batch", "handle")

_SAMPLES = Path(__file__).parents[2] / "examples" / "gsm8k" / "samples.jsonl"


def add_arguments(parser: Any) -> None:
    """The load tests' own arguments; each is an environment variable and a web field too."""

    def add(name: str, default: str | float, told: str, **settings: Any) -> None:
        variable = "LOADTEST_" + name.upper().replace("-", "_")
        settings.setdefault("type", type(default))
        parser.add_argument(f"--{name}", env_var=variable, default=default, help=told, **settings)

    add("shape", "steady", "how the load goes over time", choices=SHAPES)
    add("transport", "http-single", "how callers ask", choices=TRANSPORTS)
    add("peak-users", 0, "callers at the peak; one asks once a second at most; 0: the shape's own")
    add("duration", 0.0, "seconds; 0: the shape's own")
    add("batch", 8, "samples a call of http-batch")
    add("prompts", 4, "bursts: of a batch")
    add("samples", 8, "bursts: of a prompt")
    add("period", 10.0, "bursts: seconds from batch to batch")
    add("rollout-seconds", 8.0, "bursts: seconds of a batch's longest rollout")
    add("sigma", 0.5, "bursts: of the log-normal that rollouts' lengths are drawn from")
    add("repeats", 0.0, "share of a group's samples that repeat one of it")
    add("data", str(_SAMPLES), "labelled rows, JSON lines; long_rollouts writes its own")
    add("seed", 0, "of what is drawn")
    add("timeout-s", 60.0, "each request's deadline")
    add("max-absent", 0.0, "share that may come to no score")
    add("app", "reward", "handle: the Serve application, on RAY_ADDRESS's cluster")
    add("summary", "", "file for the figures, as JSON", include_in_web_ui=False)
