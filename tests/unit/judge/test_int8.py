from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from reward_serve_judge.weights import quantize

LINEAR = "model.layers.0.self_attn.q_proj.weight"
KEPT = {
    "model.embed_tokens.weight": np.ones((4, 3), np.float32),
    "model.layers.0.input_layernorm.weight": np.full(3, 0.3, np.float32),
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "whole"
    folder.mkdir()
    weight = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    weight[3] = 0.0
    weight[5] *= 1000.0
    save_file({LINEAR: weight, **KEPT}, folder / "model.safetensors")
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 3}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture
def quantized(checkpoint: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "int8"
    folder.mkdir()
    quantize(checkpoint, folder)
    return folder


def test_each_output_channel_is_within_half_a_step_of_its_weights_and_the_rest_is_kept(
    checkpoint: Path, quantized: Path
) -> None:
    weight = load_file(checkpoint / "model.safetensors")[LINEAR]
    tensors = load_file(quantized / "model.safetensors")
    values, scale = tensors[LINEAR], tensors[f"{LINEAR}_scale"]
    assert values.dtype == np.int8
    assert scale.shape == (8, 1)
    assert np.all(np.abs(values * scale - weight) <= 0.501 * scale)
    assert np.abs(values).max() == 127
    assert not values[3].any()
    assert tensors.keys() == {LINEAR, f"{LINEAR}_scale", *KEPT}
    for name, kept in KEPT.items():
        np.testing.assert_array_equal(tensors[name], kept)


def test_the_config_and_the_tokenizer_come_along_and_the_manifest_does_not(quantized: Path) -> None:
    config = json.loads((quantized / "config.json").read_text(encoding="utf-8"))
    assert config["hidden_size"] == 3
    assert config["quantization_config"]["format"] == "int-quantized"
    assert config["quantization_config"]["ignore"] == ["lm_head"]
    assert (quantized / "tokenizer.json").is_file()
    assert not (quantized / "manifest.json").exists()
