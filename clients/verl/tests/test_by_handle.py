"""verl 0.9.1's reward workers ask by handle, from another Ray job and namespace than the service's.

As Ray actors, as verl starts them. The service runs in the environment of ``REWARD_SERVE_BIN``; the
trainer's job is this file: ``python -m clients.verl.tests.test_by_handle ADDRESS TOKENIZER``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ray
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from clients.verl.tests.reward_loop import configured, rollout
from tests import rule_cluster


def test_the_reward_workers_find_the_service(tokenizer: Path) -> None:
    assert Path.cwd() == Path(__file__).parents[3]
    command = [Path(os.environ["REWARD_SERVE_BIN"], "python"), "-m", rule_cluster.__name__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as service:
        address = service.stdout.readline().strip()
        assert address, "the service ended"
        job = [sys.executable, "-m", "clients.verl.tests.test_by_handle", address, str(tokenizer)]
        done = subprocess.run(job, capture_output=True, text=True, timeout=280)
        service.stdin.close()

    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "trainer [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]"


if __name__ == "__main__":
    here = {"py_executable": sys.executable}  # the cluster's is the service's
    ray.init(address=sys.argv[1], namespace="trainer", log_to_driver=False, runtime_env=here)
    config = configured(None, Path(sys.argv[2]), app="reward")
    worker = ray.remote(num_cpus=0)(RewardLoopWorker).remote(config)
    outputs = ray.get(worker.compute_score_batch.remote(rollout(Path(sys.argv[2]))))
    rows = [[o["reward_score"], o["reward_extra_info"]["fallback"]] for o in outputs]
    sys.stdout.write(f"{ray.get_runtime_context().namespace} {json.dumps(rows)}\n")
