"""A trainer's Ray job: ``python -m clients.verl.tests.reward_job WHAT ADDRESS FOLDER``.

``score`` prints what actors of verl's reward loop make of a rollout, by handle; ``probe`` runs the
task runner on a row that names a model which is not there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import datasets
import ray
from omegaconf import OmegaConf
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker

from clients.verl.tests.reward_loop import configured, rollout
from reward_serve_verl.main import ProbingTaskRunner


def score(tokenizer: Path) -> None:
    """Print the namespace, and each row's reward and whether it was a fallback."""
    config = configured(None, tokenizer, app="reward")
    worker = ray.remote(num_cpus=0)(RewardLoopWorker).remote(config)
    outputs = ray.get(worker.compute_score_batch.remote(rollout(tokenizer)))
    rows = [[o["reward_score"], o["reward_extra_info"]["fallback"]] for o in outputs]
    sys.stdout.write(f"{ray.get_runtime_context().namespace} {json.dumps(rows)}\n")


def probe(folder: Path) -> None:
    """Run the task runner as the actor that verl makes of it."""
    info = {"question": "9 + 9?", "model_name": "nobody/model"}
    row = {"reward_model": {"ground_truth": "18"}, "extra_info": info}
    datasets.Dataset.from_list([row]).to_parquet(folder / "train.parquet")
    function = {"reward_kwargs": {"app": "reward"}}
    data = {"train_files": [str(folder / "train.parquet")]}
    config = OmegaConf.create({"reward": {"custom_reward_function": function}, "data": data})
    ray.get(ray.remote(num_cpus=0)(ProbingTaskRunner).remote().run.remote(config))


if __name__ == "__main__":
    what, address, folder = sys.argv[1:]
    here = {"py_executable": sys.executable}  # the cluster's is the service's
    ray.init(address=address, namespace="trainer", log_to_driver=False, runtime_env=here)
    {"score": score, "probe": probe}[what](Path(folder))
