"""A Ray cluster that serves rules, for the tests of trainers that ask by handle.

``python -m tests.rule_cluster`` serves them from the environment of another interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray import serve

from reward_serve.app import build_app, build_gateway

RULE = {"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}}
BEHIND = {"name": "rule", "application": "reward"}


@contextmanager
def rule_cluster() -> Iterator[str]:
    """Serve a rule as the application ``reward``, and a gateway to it; the address."""
    ray.init(
        address="local", num_cpus=4, namespace="service", include_dashboard=False,
        log_to_driver=False,
    )  # fmt: skip
    try:
        serve.start(proxy_location="Disabled")
        serve.run(build_app({"models": [RULE]}), name="reward", route_prefix="/reward")
        serve.run(build_gateway({"models": [BEHIND]}), name="gateway", route_prefix="/")
        yield ray.get_runtime_context().gcs_address
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    with rule_cluster() as address:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        sys.stdin.read()  # until the tests end
