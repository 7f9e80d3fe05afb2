"""Serves the bundled judge over HTTP until standard input ends: ``python -m`` this module.

It runs in the environment of ``REWARD_SERVE_BIN``; those who ask are in another.
"""

from __future__ import annotations

import socket
import sys

import ray
from ray import serve

from reward_serve.app import build_app

JUDGE = {
    "name": "judge",
    "kind": "judge",
    # A model as small writes white space for ever where JSON allows it.
    "engine": {
        "cpu_kv_cache_gib": 0.3,
        "engine_kwargs": {
            "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True}
        },
    },
    "resources": {"num_cpus": 2},
}
SERVER = {"compatible_with": ["openai"], "api_keys_env": "POOL_KEYS"}

if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(build_app({"models": [JUDGE], "server": SERVER}), name="reward")
    sys.stdout.write(f"http://127.0.0.1:{port}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()
