"""A Ray cluster that serves rules, for the tests of trainers that ask by handle.

``python -m tests.rule_cluster`` serves them, and a model of two replicas, from the environment of
another interpreter than the tests'.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray import serve

from reward_serve.app import build_app, build_gateway

RULE = {"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}}


@contextmanager
def rule_cluster(*models: dict[str, Any]) -> Iterator[str]:
    """Serve the models as the application ``reward``, and a gateway to them; the address.

    The first is a rule. The namespace is ``service``.
    """
    models = (RULE, *models)
    behind = [{"name": each["name"], "application": "reward"} for each in models]
    ray.init(
        address="local", num_cpus=4, namespace="service", include_dashboard=False,
        log_to_driver=False,
    )  # fmt: skip
    try:
        serve.start(proxy_location="Disabled")
        serve.run(build_app({"models": list(models)}), name="reward", route_prefix="/reward")
        serve.run(build_gateway({"models": behind}), name="gateway", route_prefix="/")
        yield ray.get_runtime_context().gcs_address
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    replicas = {"min_replicas": 2, "max_replicas": 2}
    with rule_cluster({**RULE, "name": "several", "autoscaling": replicas}) as address:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        sys.stdin.read()  # until the tests end
