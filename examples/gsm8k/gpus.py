"""``gpus.py FILE TRAINING ADDRESS``: exit 1 if a cluster has too few GPUs for a run.

Ray would wait forever. FILE is the judge's deployments file, TRAINING the number of GPUs that
training needs, and ADDRESS the Ray cluster (auto: this machine's; local: a new one here).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from reward_serve.cli.file_schema import checked


def shortage(content: dict[str, Any], training: float, available: float) -> str | None:
    """Why the run cannot start; None if the GPUs suffice."""
    judge = sum(
        model.autoscaling.min_replicas * (model.resources.num_gpus or 0)
        for model in checked(content).models
    )
    if judge + training <= available:
        return None
    return (
        f"the judge needs {judge:g} GPU and training {training:g}, but the cluster has "
        f"{available:g}; add GPUs, or set JUDGE=bundled, which judges on CPU cores"
    )


def main(file: str, training: str, address: str) -> None:
    """Exit 1 with a message if the cluster has too few GPUs."""
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except ConnectionError as error:
        sys.exit(f"RAY_ADDRESS={address}: {' '.join(str(error).split())}")
    available = ray.cluster_resources().get("GPU", 0.0)
    ray.shutdown()
    content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    sys.exit(shortage(content, float(training), available))


if __name__ == "__main__":
    main(*sys.argv[1:])
