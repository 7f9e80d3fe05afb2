"""Reported: int8 costs the bundled judge agreement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import linear
from transformers import AutoModelForCausalLM, AutoTokenizer

from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.judging.rendering import Renderer
from reward_serve.templates import load_template
from reward_serve_judge.int8 import input_sizes, quantize
from reward_serve_judge.weights import prepare_bundled

ROWS = Path(__file__).parents[3] / "lab" / "reward_serve_lab" / "evaluation" / "formats.jsonl"


class Imitated(torch.nn.Module):
    """A W8A8 layer as the engine computes it, in float32."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self._weight = weight

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        low = inputs.amin(-1, keepdim=True).clamp_max(0)
        step = (inputs.amax(-1, keepdim=True).clamp_min(0) - low) / 255
        zero = torch.round(-128 - low / step)
        rounded = torch.clamp(torch.round(inputs / step) + zero, -128, 127)
        return linear((rounded - zero) * step, self._weight)


@pytest.mark.slow
def test_int8_is_closer_to_float32_with_even_inputs(tmp_path: Path) -> None:
    whole = prepare_bundled()
    prompts, labels = rendered(whole)
    exact = log_odds(float32(whole), prompts, labels)
    errors = {}
    for name, sizes in (("plain", {}), ("smoothed", input_sizes(whole))):
        target = tmp_path / name
        target.mkdir()
        quantize(whole, target, sizes)
        model = imitated(float32(whole), load_file(target / "model.safetensors"))
        errors[name] = (log_odds(model, prompts, labels) - exact).abs().mean().item()
    assert errors["smoothed"] < 0.9 * errors["plain"]
    assert errors["smoothed"] < 0.25  # of log-odds


def float32(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def imitated(model: Any, tensors: dict[str, torch.Tensor]) -> Any:
    for name in [name for name in tensors if name.endswith("_scale")]:
        weight = name.removesuffix("_scale")
        layer, part = weight.removesuffix(".weight").rsplit(".", 1)
        values = tensors.pop(weight).float() * tensors.pop(name)
        setattr(model.get_submodule(layer), part, Imitated(values))
    assert not model.load_state_dict(tensors, strict=False).unexpected_keys
    return model


def rendered(folder: Path) -> tuple[list[list[int]], list[int]]:
    template = load_template("final_answer")
    renderer = Renderer(ChatTokenizer(AutoTokenizer.from_pretrained(folder)), 2048)
    prompts = []
    for line in ROWS.read_text(encoding="utf-8").splitlines()[::35]:
        row = json.loads(line)
        fields = {
            "response": row["response"],
            "reference": row["reference"].rpartition("#### ")[2],
        }
        prompts.append(
            renderer.render(
                template,
                fields,
                "label",
                response_tokens=template.response_tokens,
                reserve_tokens=1,
            ).token_ids
        )
    return prompts, list(renderer.label_ids(template).values())


@torch.inference_mode()
def log_odds(model: Any, prompts: list[list[int]], labels: list[int]) -> Any:
    rows = [model.model(torch.tensor([ids])).last_hidden_state[0, -1] for ids in prompts]
    logits = torch.stack(rows) @ model.lm_head.weight[labels].T
    return logits[:, 1] - logits[:, 0]
