from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from reward_serve_judge.training.packed import Piece, hidden_states

PIECES = [
    Piece([1, 2, 3]),
    Piece([4, 5, 6, 7], 0),
    Piece([8], 0),
    Piece([9, 10], 1),
    Piece([11, 12, 13], 1),
    Piece([14], 2),
]
PROMPTS = {
    3: [1, 2, 3, 4, 5, 6, 7, 9, 10],
    4: [1, 2, 3, 4, 5, 6, 7, 11, 12, 13],
    5: [1, 2, 3, 8, 14],
}


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=20,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        attn_implementation="sdpa",
    )
    lora = LoraConfig(r=2, lora_alpha=6, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(LlamaForCausalLM(config), lora)
    for name, parameter in adapted.named_parameters():
        if "norm" not in name:
            torch.nn.init.normal_(parameter, std=0.2)
    return adapted


def gradients(model: Any, states: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.cat(states).pow(3).sum().backward()  # type: ignore[no-untyped-call]
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def test_shared_beginnings_give_the_states_and_gradients_of_whole_prompts(model: Any) -> None:
    ours = hidden_states(model, PIECES, "cpu")
    assert [len(states) for states in ours] == [3, 4, 1, 2, 3, 1]
    packed = [ours[piece] for piece in PROMPTS]

    backbone = model.get_base_model().model
    whole = [
        backbone(input_ids=torch.tensor([ids])).last_hidden_state[0, -len(PIECES[piece].ids) :]
        for piece, ids in PROMPTS.items()
    ]
    for state, other in zip(packed, whole, strict=True):
        torch.testing.assert_close(state, other)

    expected, got = gradients(model, whole), gradients(model, packed)
    assert len(expected) == 2 * 7 * 2  # layers, products in each, A and B
    assert got.keys() == expected.keys()
    for name, gradient in expected.items():
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(got[name], gradient, rtol=1e-3, atol=1e-4, msg=name)
