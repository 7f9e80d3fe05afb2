"""Stands in for SkyRL's trainer: steps the environment of each training row, and trains nothing.

It takes the settings that ``launch.sh`` passes, and writes a right and a wrong answer's reward.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import ray
import skyrl_gym

from reward_serve_skyrl import register_envs

_JUDGE = "environment.skyrl_gym.gsm8k_judge."


def main(arguments: list[str]) -> None:
    settings = dict(argument.split("=", 1) for argument in arguments)
    config = {
        name.removeprefix(_JUDGE): value
        for name, value in settings.items()
        if name.startswith(_JUDGE)
    }
    if "app" in config:
        ray.init(log_to_driver=False)  # joins RAY_ADDRESS, as SkyRL does
    register_envs()
    (file,) = ast.literal_eval(settings["data.train_data"])
    rows: list[dict[str, Any]] = pd.read_parquet(file).to_dict("records")
    rewards = [
        [
            reward(row, config, f"#### {answer}")
            for answer in (row["reward_spec"]["ground_truth"], -1)
        ]
        for row in rows
    ]
    out = Path(settings["trainer.export_path"])
    out.mkdir(parents=True)
    (out / "rewards").write_text(json.dumps(rewards), encoding="utf-8")


def reward(row: dict[str, Any], config: dict[str, str], response: str) -> float:
    """The reward of a response, by the environment that the row names."""
    environment = skyrl_gym.make(row["env_class"], env_config=config, extras=row)
    return float(environment.step(response)["reward"])


if __name__ == "__main__":
    main(sys.argv[1:])
