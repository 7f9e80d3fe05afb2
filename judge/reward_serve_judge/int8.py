"""Writes a Llama checkpoint with its linear layers in 8-bit integers (W8A8).

The format is ``int-quantized`` of compressed-tensors: symmetric weights with a scale for each
output channel; the engine quantizes activations, with a scale and a zero point for each token.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
MANIFEST = "manifest.json"
_LINEAR = "_proj.weight"  # a Llama's attention and MLP layers
_QUANTIZATION = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                **{"num_bits": 8, "type": "int", "symmetric": True},
                **{"strategy": "channel", "dynamic": False},
            },
            # With symmetric ones, vLLM's kernel for AMX takes no float32.
            "input_activations": {
                **{"num_bits": 8, "type": "int", "symmetric": False},
                **{"strategy": "token", "dynamic": True},
            },
        }
    },
}


def quantize(source: Path, target: Path) -> None:
    """Quantize a Llama checkpoint in float32; embeddings, norms and the output layer stay float32.

    Args:
        source: contains ``model.safetensors``, ``config.json`` and the tokenizer's files.
        target: an empty folder.
    """
    import numpy as np
    from safetensors.numpy import load_file, save_file

    tensors = load_file(source / WEIGHTS)
    for name in [name for name in tensors if name.endswith(_LINEAR)]:
        weight = tensors[name]
        scale = np.maximum(np.abs(weight).max(axis=1, keepdims=True), 1e-12) / 127
        tensors[name] = np.rint(weight / scale).astype(np.int8)
        tensors[f"{name}_scale"] = scale.astype(np.float32)
    save_file(tensors, target / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((source / CONFIG).read_text(encoding="utf-8"))
    config["quantization_config"] = _QUANTIZATION
    (target / CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")
    for file in source.iterdir():
        if file.name not in (WEIGHTS, CONFIG, MANIFEST):
            shutil.copyfile(file, target / file.name)
