"""Where the GPU's runs happen: a card, or for rehearsals the CPU with everything small."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reward_serve.config.engine import EngineConfig

MODEL_LEN = 4096

# vLLM 0.24 takes FlashInfer's sampler by default, and fails where that is not installed.
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")


@dataclass(frozen=True)
class Place:
    """A device, and the size of the runs on it.

    Attributes:
        device: ``cuda``, or ``cpu`` for a rehearsal: tiny models, few prompts, meaningless figures.
        folder: where models are written.
    """

    device: Literal["cuda", "cpu"]
    folder: Path

    def pick(self, on_gpu: Any, rehearsed: Any) -> Any:
        """The value for the GPU, or the smaller one for a rehearsal on the CPU."""
        return on_gpu if self.device == "cuda" else rehearsed

    def engine(self, model: str, share: float, **settings: Any) -> EngineConfig:
        """An engine on a share of the GPU; its weights are random unless ``model`` is bundled."""
        kwargs = {} if model == "bundled" else {"load_format": "dummy"}
        own: dict[str, Any] = {
            "model": model,
            "device": self.device,
            "max_model_len": self.pick(MODEL_LEN, 512),
            "max_num_seqs": self.pick(256, 16),
            "dtype": self.pick("bfloat16", "float32"),
            "cpu_kv_cache_gib": 0.1,
            "gpu_memory_utilization": share,
            "engine_kwargs": kwargs,
        }
        settings = dict(settings)
        own["engine_kwargs"] = kwargs | settings.pop("engine_kwargs", {})
        return EngineConfig.model_validate({**own, **settings})

    def resources(self, share: float) -> dict[str, Any]:
        """The resources that a replica on this share requests from Ray."""
        return {"num_cpus": 1, **self.pick({"num_gpus": share}, {})}

    @property
    def gpus(self) -> float:
        """The GPUs of an engine in this process."""
        return float(self.pick(1, 0))


def card() -> dict[str, str]:
    """The GPU's name, memory and driver; empty without a driver."""
    if shutil.which("nvidia-smi") is None:
        return {}
    fields = ("name", "memory.total", "driver_version")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    values = done.stdout.strip().splitlines()[:1]
    return dict(zip(fields, values[0].split(", "), strict=True)) if values else {}
