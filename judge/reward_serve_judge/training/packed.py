"""A Llama's forward pass over prompts with shared prefixes: each token once, without padding.

The tokens of a batch form one row, so each layer is one matrix product whatever the prompts'
lengths; only attention distinguishes prompts. LoRA layers with the same input are computed as one
product. Matrix products, attention and gated units use the precision of the base weights; residual
sums, norms, rotations and the trained weights use single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import silu


@dataclass(frozen=True, slots=True)
class Piece:
    """Token ids that continue another piece, or begin a prompt.

    Attributes:
        ids: at least one token id.
        parent: index of the preceding piece, if any; a piece comes after its parent.
    """

    ids: list[int]
    parent: int | None = None


class _Generation:
    """Pieces with the same number of ancestors, whose attention is computed together.

    Attributes:
        queries: token indices of each piece, padded, shape (pieces, longest).
        keys: token indices of each piece and its ancestors, padded, shape (pieces, longest).
        mask: 0 where a query sees a key, otherwise -inf, shape (pieces, 1, 1, queries, keys).
        unpadded: flat indices of the queries that are not padding.
    """

    def __init__(self, paths: Sequence[Sequence[range]], device: str, dtype: torch.dtype) -> None:
        ends = [path[-1] for path in paths]
        known = [[token for tokens in path for token in tokens] for path in paths]
        width = max(map(len, ends))
        self.queries = _padded(ends, device)
        self.keys = _padded(known, device)
        before = torch.tensor([len(k) - len(o) for k, o in zip(known, ends, strict=True)])
        last = before[:, None] + torch.arange(width)[None, :]
        seen = torch.arange(self.keys.shape[1])[None, None, :] <= last[:, :, None]
        hidden = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, -torch.inf)
        self.mask = hidden[:, None, None].to(device)
        places = [row * width + at for row, tokens in enumerate(ends) for at in range(len(tokens))]
        self.unpadded = torch.tensor(places, device=device)


def _padded(rows: Sequence[Sequence[int]], device: str) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)


def hidden_states(model: Any, pieces: Sequence[Piece], device: str) -> list[torch.Tensor]:
    """The last hidden states of each piece, shape (tokens, width).

    Args:
        model: a PEFT model of a Llama with LoRA on every linear layer, without dropout.
        pieces: the pieces, ordered by number of ancestors.
        device: the model's device.
    """
    paths: list[list[range]] = []
    end = 0
    for piece in pieces:
        start, end = end, end + len(piece.ids)
        paths.append(
            [*(paths[piece.parent] if piece.parent is not None else []), range(start, end)]
        )
    depths = sorted({len(path) for path in paths})
    backbone = model.get_base_model().model
    dtype = backbone.layers[0].mlp.down_proj.base_layer.weight.dtype
    generations = [_Generation([p for p in paths if len(p) == d], device, dtype) for d in depths]
    ids = torch.tensor([token for piece in pieces for token in piece.ids], device=device)
    places = [sum(map(len, path[:-1])) + at for path in paths for at in range(len(path[-1]))]
    hidden = backbone.embed_tokens(ids)
    position = torch.tensor([places], device=device)
    cos, sin = (
        table[0, :, None].chunk(2, dim=-1)[0] for table in backbone.rotary_emb(hidden, position)
    )
    for layer in backbone.layers:
        hidden = _layer(layer, hidden, (cos, sin), generations)
    hidden = _norm(backbone.norm, hidden)
    return list(torch.split(hidden, [len(piece.ids) for piece in pieces]))


def _layer(
    layer: Any,
    hidden: torch.Tensor,
    turn: tuple[torch.Tensor, torch.Tensor],
    generations: list[_Generation],
) -> torch.Tensor:
    attention, mlp = layer.self_attn, layer.mlp
    dtype = generations[0].mask.dtype
    x = _norm(layer.input_layernorm, hidden, dtype)
    heads = _product(x, attention.q_proj, attention.k_proj, attention.v_proj)
    heads = heads.view(len(x), -1, attention.head_dim)
    groups = attention.num_key_value_groups
    key_heads = heads.shape[1] // (groups + 2)
    turned, value = torch.split(heads, [(groups + 1) * key_heads, key_heads], dim=1)
    turned = _Turned.apply(turned, *turn)  # type: ignore[no-untyped-call]
    query, key = torch.split(turned, [groups * key_heads, key_heads], dim=1)
    query = query * attention.scaling
    attended = torch.cat([_attend(query, key, value, generation) for generation in generations])
    hidden = hidden + _product(attended, attention.o_proj)
    x = _norm(layer.post_attention_layernorm, hidden, dtype)
    gate, up = _product(x, mlp.gate_proj, mlp.up_proj).chunk(2, dim=-1)
    return hidden + _product(silu(gate) * up, mlp.down_proj)


def _norm(norm: Any, x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    normed: torch.Tensor = _Normed.apply(x, norm.weight, norm.variance_epsilon, dtype or x.dtype)  # type: ignore[no-untyped-call]
    return normed


class _Normed(torch.autograd.Function):
    """RMSNorm whose output may have another precision; the weight has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, epsilon: float, dtype: torch.dtype) -> Any:
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        rate = size.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, weight, rate)
        return (x * rate).mul_(weight).to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor | None, ...]:
        x, weight, rate = ctx.saved_tensors
        grad = grads[0].to(x.dtype) * weight
        along = torch.linalg.vecdot(grad, x)[:, None] * rate.pow(3) / x.shape[-1]
        return grad.mul_(rate).addcmul_(x, along, value=-1), None, None, None


class _Turned(torch.autograd.Function):
    """Rotary embedding of heads, shape (tokens, heads, size), in the tables' precision."""

    @staticmethod
    def forward(ctx: Any, heads: Any, cos: Any, sin: Any) -> Any:
        ctx.save_for_backward(cos, sin)
        return _turned(heads, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _turned(grads[0], cos, -sin), None, None


def _turned(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = heads.to(cos.dtype).chunk(2, dim=-1)
    out = torch.empty_like(heads)
    first, second = out.chunk(2, dim=-1)
    first.copy_((left * cos).addcmul_(right, sin, value=-1))
    second.copy_((right * cos).addcmul_(left, sin))
    return out


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, generation: _Generation
) -> torch.Tensor:
    def taken(tokens: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        rows = tokens.flatten(1).index_select(0, index.flatten())
        return rows.view(*index.shape, *tokens.shape[1:]).transpose(1, 2)

    queries = taken(query, generation.queries)
    pieces, heads, width, size = queries.shape
    groups = heads // key.shape[1]
    queries = queries.reshape(pieces, -1, groups * width, size)
    scores = queries @ taken(key, generation.keys).transpose(-1, -2)
    scores = scores.view(pieces, -1, groups, width, scores.shape[-1]) + generation.mask
    weights = torch.softmax(scores, dim=-1).flatten(2, 3)
    attended = (weights @ taken(value, generation.keys)).view(pieces, heads, width, size)
    return attended.transpose(1, 2).flatten(2).flatten(0, 1).index_select(0, generation.unpadded)


def _product(x: torch.Tensor, *layers: Any) -> torch.Tensor:
    weights = [
        weight
        for layer in layers
        for weight in (
            layer.base_layer.weight,
            layer.lora_A["default"].weight,
            layer.lora_B["default"].weight,
        )
    ]
    product: torch.Tensor = _Adapted.apply(x, layers[0].scaling["default"], *weights)  # type: ignore[no-untyped-call]
    return product


class _Adapted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, scale: float, *weights: Any) -> torch.Tensor:
        bases, downs, ups = weights[::3], weights[1::3], weights[2::3]
        base = torch.cat(bases)
        x, down = x.to(base.dtype), torch.cat(downs).mul_(scale).to(base.dtype)
        ups = tuple(up.to(base.dtype) for up in ups)
        lowered = x @ down.T
        product: torch.Tensor = x @ base.T
        ranks = [up.shape[1] for up in ups]
        parts = torch.split(product, [len(up) for up in ups], dim=1)
        for part, low, up in zip(parts, lowered.split(ranks, dim=1), ups, strict=True):
            part.addmm_(low, up.T)
        ctx.save_for_backward(x, base, down, lowered, *ups)
        ctx.scale = scale
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor | None, ...]:
        x, base, down, lowered, *ups = ctx.saved_tensors
        (grad,) = grads
        parts = grad.split([len(up) for up in ups], dim=1)
        ranks = [up.shape[1] for up in ups]
        raised = torch.cat([part @ up for part, up in zip(parts, ups, strict=True)], dim=1)
        grads_a = (raised.T @ x).float().mul_(ctx.scale).split(ranks)
        lows = lowered.split(ranks, dim=1)
        grads_b = [(part.T @ low).float() for part, low in zip(parts, lows, strict=True)]
        adapter_grads = [g for a, b in zip(grads_a, grads_b, strict=True) for g in (None, a, b)]
        back = (grad @ base).addmm_(raised, down) if ctx.needs_input_grad[0] else None
        return back, None, *adapter_grads
