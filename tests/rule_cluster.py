"""Serves a rule on a Ray cluster until its standard input ends: ``python -m tests.rule_cluster``.

For the tests of trainers that ask by handle, from the environment of another interpreter.
"""

import sys

import ray
from ray import serve

from reward_serve.app import build_app

RULE = {"name": "rule", "kind": "rule", "resources": {"num_cpus": 0.1}}

if __name__ == "__main__":
    ray.init(
        address="local", num_cpus=4, namespace="service", include_dashboard=False,
        log_to_driver=False,
    )  # fmt: skip
    serve.start(proxy_location="Disabled")
    serve.run(build_app({"models": [RULE]}), name="reward", route_prefix="/reward")
    sys.stdout.write(f"{ray.get_runtime_context().gcs_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()
