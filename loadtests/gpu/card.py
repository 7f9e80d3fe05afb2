"""The card, engines on a share of it, and models of random weights by their published shapes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from deployments.local import console
from loadtests.bench.common import machine
from reward_serve.config.engine import EngineConfig
from reward_serve_judge.weights import prepare_bundled

RESULTS = Path(__file__).parents[1] / "results"

# vLLM 0.24 takes FlashInfer's sampler by default, and fails where that is not installed.
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")

SHAPES: dict[str, dict[str, Any]] = {
    "qwen2.5-1.5b": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": True,
    },
    "llama-8b": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128_256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "tie_word_embeddings": False,
    },
}
SHAPES["tiny"] = SHAPES["qwen2.5-1.5b"] | {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 49_152,
}
_COMMON = {
    "hidden_act": "silu",
    "max_position_embeddings": 32_768,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
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
    config = {**_COMMON, **SHAPES[shape]}
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
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


def run_parts(parts: dict[str, Callable[[], dict[str, Any]]], only: str, path: Path) -> None:
    """Measure the parts in turn, and add the figures of each to a file at once.

    Args:
        parts: what can be measured, by name.
        only: names, separated by commas; empty for all.
        path: the file.
    """
    chosen = [name for name in only.split(",") if name] or list(parts)
    if unknown := set(chosen) - parts.keys():
        raise typer.BadParameter(f"--only: unknown {sorted(unknown)}; known: {', '.join(parts)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        measured = parts[name]()
        report = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        command = " ".join(["python", *sys.orig_argv[1:]])
        report[name] = {**measured, "command": command, "machine": machine() | card()}
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        console.print_json(json.dumps({name: measured}))
