"""A Ray job that rolls SkyRL 0.4.0's generator out: ``rollout_job.py ADDRESS APPLICATION``."""

from __future__ import annotations

import json
import sys

REWARDS = [1.0, 0.0, 1.0, 0.0]


def main() -> None:
    """Print the rewards that the application's environments earned, and whose job asked."""
    import ray
    from transformers import AutoTokenizer

    from clients.skyrl.tests import conftest  # before skyrl, which it makes importable
    from clients.skyrl.tests.test_generator import Policy, configured, rollout, totals
    from reward_serve_judge.weights import prepare_bundled

    assert conftest.tokenizer
    address, app = sys.argv[1:]
    ray.init(address=address, namespace="trainer", log_to_driver=False)
    tokenizer = AutoTokenizer.from_pretrained(prepare_bundled(adapter=None))
    section = "environment.skyrl_gym.gsm8k_judge"
    config = configured("", f"{section}.url=null", f"{section}.app={app}")
    output = rollout(config, Policy(tokenizer), tokenizer)
    context = ray.get_runtime_context()
    printed = {
        "namespace": context.namespace,
        "job": context.get_job_id(),
        "rewards": totals(output),
        "ok": output["rollout_metrics"]["environment/judge_ok_mean"],
    }
    sys.stdout.write(json.dumps(printed) + "\n")


if __name__ == "__main__":
    main()
