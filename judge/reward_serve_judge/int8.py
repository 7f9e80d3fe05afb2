"""Rewrites a checkpoint with its linear layers in 8-bit integers (W8A8).

The format is compressed-tensors' ``int-quantized``: symmetric weights with a scale for each output
channel; activations are quantized by the engine, with a scale for each token. Embeddings, norms and
the output layer keep their type.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

_WEIGHTS = "model.safetensors"
_CONFIG = "config.json"
_LINEAR = "_proj.weight"  # a Llama's attention and MLP layers
_BITS = {"num_bits": 8, "type": "int", "symmetric": True}
_QUANTIZATION = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {**_BITS, "strategy": "channel", "dynamic": False},
            "input_activations": {**_BITS, "strategy": "token", "dynamic": True},
        }
    },
}


def quantize(source: Path, target: Path) -> None:
    """Quantize a Llama checkpoint in float32 into another folder.

    Args:
        source: contains ``model.safetensors``, ``config.json`` and the tokenizer's files.
        target: an empty folder.

    Raises:
        OSError: a file cannot be read or written.
    """
    import numpy as np
    from safetensors.numpy import load_file, save_file

    tensors = load_file(source / _WEIGHTS)
    for name in [name for name in tensors if name.endswith(_LINEAR)]:
        weight = tensors[name]
        scale = np.maximum(np.abs(weight).max(axis=1, keepdims=True), 1e-12) / 127
        tensors[name] = np.rint(weight / scale).astype(np.int8)
        tensors[f"{name}_scale"] = scale.astype(np.float32)
    save_file(tensors, target / _WEIGHTS, metadata={"format": "pt"})
    config = json.loads((source / _CONFIG).read_text(encoding="utf-8"))
    config["quantization_config"] = _QUANTIZATION
    (target / _CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")
    for file in source.iterdir():
        if file.name not in (_WEIGHTS, _CONFIG, "manifest.json"):
            shutil.copyfile(file, target / file.name)
