from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from reward_serve_judge.int8 import quantize, smooth

LINEAR = "model.layers.0.self_attn.q_proj.weight"
KEPT = {
    "model.embed_tokens.weight": np.ones((4, 3), np.float32),
    "model.layers.0.input_layernorm.weight": np.full(3, 0.3, np.float32),
}


def test_each_output_channel_is_within_half_a_step_and_the_rest_is_kept(tmp_path: Path) -> None:
    source, target = tmp_path / "whole", tmp_path / "int8"
    source.mkdir()
    target.mkdir()
    weight = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    weight[3] = 0.0
    weight[5] *= 1000.0
    save_file({LINEAR: weight, **KEPT}, source / "model.safetensors")
    for name in ("config.json", "tokenizer.json", "manifest.json"):
        (source / name).write_text('{"hidden_size": 3}', encoding="utf-8")
    quantize(source, target, {})

    tensors = load_file(target / "model.safetensors")
    values, scale = tensors.pop(LINEAR), tensors.pop(f"{LINEAR}_scale")
    assert values.dtype == np.int8
    assert scale.shape == (8, 1)
    assert np.all(np.abs(values * scale - weight) <= 0.501 * scale)
    assert np.abs(values).max() == 127
    assert not values[3].any()
    assert tensors.keys() == KEPT.keys()
    assert all(np.array_equal(tensors[name], kept) for name, kept in KEPT.items())
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    assert config["hidden_size"] == 3
    assert config["quantization_config"]["format"] == "int-quantized"
    assert config["quantization_config"]["ignore"] == ["lm_head"]
    activations = config["quantization_config"]["config_groups"]["group_0"]["input_activations"]
    assert activations["symmetric"] is False  # vLLM's symmetric kernel for AMX takes no float32
    assert (target / "tokenizer.json").is_file()
    assert not (target / "manifest.json").exists()


def test_smoothing_evens_out_the_inputs_and_changes_no_product() -> None:
    rng = np.random.default_rng(0)
    block = "model.layers.0."
    norm, up = f"{block}post_attention_layernorm.weight", f"{block}mlp.up_proj.weight"
    gate, down = f"{block}mlp.gate_proj.weight", f"{block}mlp.down_proj.weight"
    shapes = {norm: (6,), gate: (9, 6), up: (9, 6), down: (6, 9)}
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    tensors[norm][4] = 60.0

    def parts() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inputs = hidden * tensors[norm]
        wide = np.maximum(inputs @ tensors[gate].T, 0) * (inputs @ tensors[up].T)
        return inputs, wide, wide @ tensors[down].T

    hidden = rng.normal(size=(50, 6)).astype(np.float32)
    inputs, wide, before = parts()
    sizes = {
        name.removesuffix(".weight"): np.sqrt((values**2).mean(axis=0))
        for name, values in ((gate, inputs), (down, wide))
    }
    smooth(tensors, sizes)
    smoothed, _, after = parts()
    assert np.allclose(before, after, rtol=1e-4, atol=1e-3)
    spread = [np.ptp(np.log2(np.abs(values).max(axis=0))) for values in (inputs, smoothed)]
    assert spread[1] < 0.7 * spread[0]
    powers = np.log2(np.abs(inputs[0] / smoothed[0]))
    assert np.array_equal(powers, np.rint(powers))
