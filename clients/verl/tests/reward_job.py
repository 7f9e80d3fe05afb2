"""A trainer's Ray job: ``python -m clients.verl.tests.reward_job ADDRESS TOKENIZER``.

It prints its namespace, and what an actor of verl's reward loop makes of a rollout, by handle: each
row's reward and whether it was a fallback.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ray
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from clients.verl.tests.reward_loop import configured, rollout

if __name__ == "__main__":
    address, folder = sys.argv[1:]
    here = {"py_executable": sys.executable}  # the cluster's is the service's
    ray.init(address=address, namespace="trainer", log_to_driver=False, runtime_env=here)
    config = configured(None, Path(folder), app="reward")
    worker = ray.remote(num_cpus=0)(RewardLoopWorker).remote(config)
    outputs = ray.get(worker.compute_score_batch.remote(rollout(Path(folder))))
    rows = [[o["reward_score"], o["reward_extra_info"]["fallback"]] for o in outputs]
    sys.stdout.write(f"{ray.get_runtime_context().namespace} {json.dumps(rows)}\n")
