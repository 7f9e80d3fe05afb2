"""``gym eval run`` without its preparation of data sets, which imports mlflow and datasets."""

from __future__ import annotations

import asyncio

from nemo_gym.cli.env import RunHelper
from nemo_gym.global_config import get_global_config_dict
from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper
from omegaconf import OmegaConf

if __name__ == "__main__":
    settings = OmegaConf.to_container(get_global_config_dict())
    servers = RunHelper()
    servers.start(None)
    try:
        config = RolloutCollectionConfig.model_validate(settings)
        asyncio.run(RolloutCollectionHelper().run_from_config(config))
    finally:
        servers.shutdown()
