"""The card, engines on a share of it, and models of random weights by their published shapes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from loadtests.reports import run_parts
from reward_serve.config.engine import EngineConfig
from reward_serve_judge.weights import prepare_bundled

# vLLM 0.24 takes FlashInfer's sampler by default, and fails where that is not installed.
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")

SHAPES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("shapes.yaml").read_text(encoding="utf-8")
)
_PEAK_TFLOPS = {"H100 80GB HBM3": 989.4, "H200": 989.4, "H100 PCIe": 756.0, "A100": 312.0}
"""Dense bfloat16, by what the card's name holds (NVIDIA's data sheets)."""

_EMPTY_SAFETENSORS = (2).to_bytes(8, "little") + b"{}"


@dataclass(frozen=True)
class Place:
    """A device, and the size of the runs on it.

    Attributes:
        device: ``cuda``, or ``cpu`` for a rehearsal: tiny models, few prompts, meaningless figures.
    """

    device: Literal["cuda", "cpu"]

    def pick(self, on_gpu: Any, rehearsed: Any) -> Any:
        """The value for the GPU, or the smaller one for a rehearsal on the CPU."""
        return on_gpu if self.device == "cuda" else rehearsed

    def engine(self, model: str, share: float, **settings: Any) -> EngineConfig:
        """An engine on a share of the GPU; its weights are random unless ``model`` is bundled."""
        dummy = {} if model == "bundled" else {"load_format": "dummy"}
        defaults: dict[str, Any] = {
            "model": model,
            "device": self.device,
            "max_model_len": self.pick(4096, 512),
            "max_num_seqs": self.pick(256, 16),
            "dtype": self.pick("bfloat16", "float32"),
            "cpu_kv_cache_gib": 0.1,
            "gpu_memory_utilization": share,
        }
        kwargs = dummy | settings.get("engine_kwargs", {})
        return EngineConfig.model_validate({**defaults, **settings, "engine_kwargs": kwargs})

    def resources(self, share: float) -> dict[str, Any]:
        """The resources that a replica on this share requests from Ray."""
        return {"num_cpus": 1, **self.pick({"num_gpus": share}, {})}


def write_model(folder: Path, shape: str) -> Path:
    """Write a checkpoint folder of this shape without weights, for ``load_format: dummy``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SHAPES[shape], indent=1), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_EMPTY_SAFETENSORS)
    for file in prepare_bundled().iterdir():
        if file.name.startswith(("token", "special", "chat_template", "vocab", "merges")):
            shutil.copy(file, folder)
    return folder


def parameters(shape: str) -> int:
    """Number of the language model's weights, including embeddings."""
    sizes = SHAPES[shape]
    hidden, intermediate = sizes["hidden_size"], sizes["intermediate_size"]
    keys = hidden // sizes["num_attention_heads"] * sizes["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * keys + 3 * hidden * intermediate + 2 * hidden
    if sizes["model_type"] == "qwen2":
        layer += hidden + 2 * keys  # biases
    embeddings = sizes["vocab_size"] * hidden * (1 if sizes["tie_word_embeddings"] else 2)
    return int(sizes["num_hidden_layers"] * layer + embeddings + hidden)


def card() -> dict[str, str]:
    """The GPU's name, memory and driver; empty without a driver."""
    if shutil.which("nvidia-smi") is None:
        return {}
    fields = ("name", "memory.total", "driver_version")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    values = done.stdout.strip().splitlines()[:1]
    return dict(zip(fields, values[0].split(", "), strict=True)) if values else {}


def share_of_peak(per_s: float, shape: str, computed: float) -> float | None:
    """Two operations per parameter and computed token, over the card's dense bfloat16 peak."""
    name = card().get("name", "")
    peak = next((peak for known, peak in _PEAK_TFLOPS.items() if known in name), None)
    return peak and per_s * 2.0 * parameters(shape) * computed / (peak * 1e12)


def run_on(parts: Mapping[str, Callable[[], dict[str, Any]]], only: str, path: Path) -> None:
    """``reports.run_parts``, with the card's name and the command as it was called."""
    command = " ".join(["python", *sys.orig_argv[1:]])
    run_parts(parts, only, path, lambda _: command, **card())
