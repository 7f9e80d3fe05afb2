"""A Ray cluster that serves a rule, for the tests of trainers that ask by handle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray import serve

from reward_serve.app import build_app


@contextmanager
def rule_cluster() -> Iterator[str]:
    """Serve a rule as the application ``reward``, in the namespace ``service``; the address."""
    ray.init(
        address="local", num_cpus=4, namespace="service", include_dashboard=False,
        log_to_driver=False,
    )  # fmt: skip
    try:
        serve.start(proxy_location="Disabled")
        rule = {"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}}
        serve.run(build_app({"models": [rule]}), name="reward", route_prefix="/reward")
        yield ray.get_runtime_context().gcs_address
    finally:
        serve.shutdown()
        ray.shutdown()
