from __future__ import annotations

import torch
from peft import LoraConfig, get_peft_model

from examples.train_judge.merged import merge_in_forward


def test_the_merged_product_has_the_same_value_and_gradients() -> None:
    torch.manual_seed(0)
    config = LoraConfig(r=2, lora_alpha=6, target_modules=["0"])
    model = get_peft_model(torch.nn.Sequential(torch.nn.Linear(5, 3, bias=False)), config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 4, 5, requires_grad=True)

    def run() -> list[torch.Tensor]:
        model.zero_grad()
        x.grad = None
        output = model.base_model.model(x)
        output.square().sum().backward()
        assert x.grad is not None
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        return [output.detach().clone(), x.grad.clone(), *(grad.clone() for grad in grads)]

    expected = run()
    merge_in_forward(model)
    merged = run()

    assert len(expected) == 4  # the output, the input's gradient, the adapter's two
    for one, other in zip(expected, merged, strict=True):
        torch.testing.assert_close(one, other)
