import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from reward_serve_judge.int8 import quantize

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
    quantize(source, target)

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
