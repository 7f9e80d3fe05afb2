"""``gpus.py FILE TRAINING ADDRESS``: exit 1 if a cluster has too few GPUs for a run.

Ray would wait for ever. FILE deploys the judge, TRAINING is the number of GPUs that training takes,
and ADDRESS is the cluster's (auto: this machine's; local: the one that would start here).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from reward_serve.launch import models_of


def shortage(content: dict[str, Any], training: float, there: float) -> str | None:
    """Why the run cannot start; None if the GPUs suffice."""
    judge = sum(
        model.autoscaling.min_replicas * (model.resources.num_gpus or 0)
        for model in models_of(content)
    )
    if judge + training <= there:
        return None
    return (
        f"the judge needs {judge:g} GPU and training {training:g}, but the cluster has {there:g}; "
        "add GPUs, or set JUDGE=bundled, which judges on CPU cores"
    )


def main(file: str, training: str, address: str) -> None:
    """Compare, and exit with the reason if GPUs are missing."""
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except ConnectionError as error:
        sys.exit(f"RAY_ADDRESS={address}: {' '.join(str(error).split())}")
    there = ray.cluster_resources().get("GPU", 0.0)
    ray.shutdown()
    content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    sys.exit(shortage(content, float(training), there))


if __name__ == "__main__":
    main(*sys.argv[1:])
