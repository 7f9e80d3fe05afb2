"""Writes a Llama checkpoint with its linear layers in 8-bit integers (W8A8).

The format is ``int-quantized`` of compressed-tensors: symmetric weights with a scale for each
output channel; the engine quantizes activations, with a scale and a zero point for each token.

Before that, large input channels of a layer are made smaller and its weights larger
(SmoothQuant, https://arxiv.org/abs/2211.10438): a few channels of this model's inputs are up to
thirty times as large as the others, which then have few of a token's 255 steps. The factors are
folded into the norm or layer before, so the model computes the same, and they are powers of two,
so it does to the last bit.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
MANIFEST = "manifest.json"
_CALIBRATION = Path(__file__).parent / "training" / "dev_formats.jsonl"
_EVERY = 35  # of its rows: 12 prompts; twice as many give the same factors
_LINEAR = "_proj.weight"  # a Llama's attention and MLP layers
_FOLDS = (
    ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
    ("mlp.up_proj", ("mlp.down_proj",)),
)
"""What scales a layer's input channels, and the layers with this input."""
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


def input_sizes(folder: Path) -> dict[str, Array]:
    """The root mean square of each input channel of linear layers, on prompts as in the service.

    Args:
        folder: the checkpoint with its tokenizer.

    Returns:
        For a layer such as ``model.layers.0.mlp.down_proj``, an array of its input's size; of
        layers with the same input, for the first in ``_FOLDS``.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    squares: dict[str, list[Any]] = defaultdict(list)

    def measured(name: str) -> Any:
        return lambda _, inputs: squares[name].append(inputs[0].square().mean((0, 1)))

    firsts = tuple(layers[0] for _, layers in _FOLDS)
    for name, layer in model.named_modules():
        if name.endswith(firsts):
            layer.register_forward_pre_hook(measured(name))
    with torch.inference_mode():
        for ids in _prompts(AutoTokenizer.from_pretrained(folder)):
            model.model(torch.tensor([ids]))
    return {name: torch.stack(each).mean(0).sqrt().numpy() for name, each in squares.items()}


def _prompts(tokenizer: Any) -> Iterator[list[int]]:
    from reward_serve.engines.vllm import ChatTokenizer
    from reward_serve.judging.rendering import Renderer
    from reward_serve.templates import load_template

    template = load_template("final_answer")
    renderer = Renderer(ChatTokenizer(tokenizer), 2048)
    for line in _CALIBRATION.read_text(encoding="utf-8").splitlines()[::_EVERY]:
        row = json.loads(line)
        yield renderer.render(
            template,
            {name: row[name] for name in ("response", "reference")},
            "label",
            response_tokens=template.response_tokens,
            reserve_tokens=1,
        ).token_ids


def quantize(source: Path, target: Path, sizes: Mapping[str, Array]) -> None:
    """Quantize a Llama checkpoint in float32; embeddings, norms and the output layer stay float32.

    Args:
        source: contains ``model.safetensors``, ``config.json`` and the tokenizer's files.
        target: an empty folder.
        sizes: of inputs, by ``input_sizes``; layers without one are not smoothed.
    """
    import numpy as np
    from safetensors.numpy import load_file, save_file

    tensors = load_file(source / WEIGHTS)
    smooth(tensors, sizes)
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


def smooth(tensors: dict[str, Array], sizes: Mapping[str, Array]) -> None:
    """Divide each input channel by a power of two near sqrt(size / largest weight), in place."""
    import numpy as np

    for before, layers in _FOLDS:
        for name, size in sizes.items():
            if not name.endswith(layers[0]):
                continue
            block = name.removesuffix(layers[0])
            weights = [f"{block}{layer}.weight" for layer in layers]
            largest = np.abs(np.concatenate([tensors[weight] for weight in weights])).max(axis=0)
            ratio = np.maximum(size, 1e-6) / np.maximum(largest, 1e-6)
            factor = np.exp2(np.rint(np.log2(ratio) / 2)).astype(np.float32)
            tensors[f"{block}{before}.weight"] = (tensors[f"{block}{before}.weight"].T / factor).T
            for weight in weights:
                tensors[weight] = tensors[weight] * factor
