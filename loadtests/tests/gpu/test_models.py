from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtests.gpu import models
from loadtests.gpu.check import compared, key
from loadtests.gpu.models import parameters, peak_flops, write_model
from loadtests.gpu.place import Place
from loadtests.gpu.speed import roofline
from reward_serve.engines.checkpoint import check_checkpoint
from reward_serve.engines.vllm import engine_arguments


def test_the_shapes_have_the_published_numbers_of_parameters() -> None:
    assert parameters("qwen2.5-1.5b") == 1_543_714_304
    assert parameters("llama-8b") == 8_030_261_248


def test_a_model_without_weights_passes_as_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = tmp_path / "bundled"
    bundled.mkdir()
    (bundled / "tokenizer.json").write_text("{}")
    (bundled / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setattr(models, "prepare_bundled", lambda: bundled)

    folder = write_model(tmp_path / "made", "llama-8b", classifier=True)

    assert check_checkpoint(str(folder)) == folder
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForSequenceClassification"]


def test_a_card_is_known_by_what_its_name_holds() -> None:
    assert peak_flops("NVIDIA H100 80GB HBM3") == 989.4e12
    assert peak_flops("NVIDIA H200") == 989.4e12
    assert peak_flops("a card of tomorrow") is None


def test_the_roofline_is_two_operations_a_parameter_and_token() -> None:
    shares = roofline(1000.0, "qwen2.5-1.5b", 256, 2e15)

    assert shares["share_of_peak"] == pytest.approx(1000 * 2 * 1_543_714_304 * 256 / 2e15)
    assert shares["share_of_peak_by_layers"] < shares["share_of_peak"]  # type: ignore[operator]
    assert roofline(1000.0, "llama-8b", 256, None)["share_of_peak"] is None


def test_an_engine_on_a_card_takes_its_share_and_random_weights(tmp_path: Path) -> None:
    config = Place("cuda", tmp_path).engine("/models/made", 0.31, max_num_seqs=64)
    arguments = engine_arguments(config, config.model, 1)

    assert arguments["gpu_memory_utilization"] == 0.31
    assert arguments["load_format"] == "dummy"
    assert arguments["dtype"] == "bfloat16"
    assert arguments["max_num_seqs"] == 64


ROWS = [{"response": f"It is {n}", "reference": "18", "correct": n == 18} for n in (17, 18, 19)]


def test_a_flip_near_a_half_is_distinguished_from_one_that_is_not() -> None:
    expected = {key(row): p for row, p in zip(ROWS, (0.49, 0.99, 0.01), strict=True)}

    found = compared(ROWS, expected, [0.51, 0.2, 0.01])

    assert [flip["cpu"] for flip in found["flips"]] == [0.49, 0.99]
    assert found["flips_not_near_half"] == 1
    assert found["difference"]["largest"] == pytest.approx(0.79)
    assert found["agreement"] == pytest.approx(1 / 3)


def test_a_reference_of_other_rows_is_refused() -> None:
    with pytest.raises(KeyError):
        compared(ROWS, {key(ROWS[0]): 0.1}, [0.1, 0.9, 0.1])
