"""Models of random weights, by their published shapes, and what a card can do at most."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reward_serve_judge.weights import prepare_bundled

_COMMON = {
    "hidden_act": "silu",
    "max_position_embeddings": 32_768,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}

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
    "tiny": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 49_152,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
    },
}

_PEAK_TFLOPS = {"H100 80GB HBM3": 989.4, "H200": 989.4, "H100 PCIe": 756.0, "A100": 312.0}
"""Dense bfloat16, by what the card's name holds (NVIDIA's data sheets)."""

_EMPTY_SAFETENSORS = (2).to_bytes(8, "little") + b"{}"


def write_model(folder: Path, shape: str, classifier: bool = False) -> Path:
    """Write a checkpoint folder without weights, for ``load_format: dummy``.

    Args:
        folder: the folder; created if missing.
        shape: a key of ``SHAPES``.
        classifier: make it a classifier with one logit instead of a language model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {**_COMMON, **SHAPES[shape]}
    if classifier:
        (name,) = config["architectures"]
        config["architectures"] = [name.replace("CausalLM", "SequenceClassification")]
        config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "pad_token_id": 2}
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_EMPTY_SAFETENSORS)
    for file in prepare_bundled().iterdir():
        if file.name.startswith(("token", "special", "chat_template", "vocab", "merges")):
            shutil.copy(file, folder)
    return folder


def parameters(shape: str) -> int:
    """Number of the language model's weights, including embeddings."""
    c = SimpleNamespace(**SHAPES[shape])
    keys = c.hidden_size // c.num_attention_heads * c.num_key_value_heads
    layer = 2 * c.hidden_size**2 + 2 * c.hidden_size * keys
    layer += 3 * c.hidden_size * c.intermediate_size + 2 * c.hidden_size
    if c.model_type == "qwen2":
        layer += c.hidden_size + 2 * keys  # biases
    embeddings = c.vocab_size * c.hidden_size * (1 if c.tie_word_embeddings else 2)
    return int(c.num_hidden_layers * layer + embeddings + c.hidden_size)


def shape_of(shape: str) -> Any:
    """The shape's configuration, with its keys as attributes."""
    return SimpleNamespace(**SHAPES[shape])


def peak_flops(card: str) -> float | None:
    """Peak dense bfloat16 FLOP/s of a GPU; None if it is not in the table."""
    found = [peak for name, peak in _PEAK_TFLOPS.items() if name in card]
    return found[0] * 1e12 if found else None
