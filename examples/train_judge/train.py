"""Trains a LoRA on the label logits of the shipped ``final_answer`` template.

One pass over generated examples; what is trained on is what the service renders. The prompt's
static text is computed once a batch and shared, as the engine's prefix cache shares it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.train_judge.drafts import Problem
from examples.train_judge.merged import merge_in_forward
from examples.train_judge.recipe import Recipe
from examples.train_judge.responses import Example
from reward_serve.engines.tokenizer import ChatTokenizer
from reward_serve.judging.rendering import Renderer
from reward_serve.judging.template import load_template

CHECKPOINT = "checkpoint.pt"
_BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
_REFERENCE = 24  # more tokens than a reference and what follows it
_WINDOW = 16  # batches made together, to sort their prompts by length


class Trainer:
    """The base model with its adapter, and how examples become prompts.

    Args:
        recipe: the settings.
        base: folder of the base model.
        device: ``cpu`` or ``cuda``.
    """

    def __init__(self, recipe: Recipe, base: Path, device: str) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.device = device
        self.template = load_template(recipe.template)
        self._renderer = Renderer(ChatTokenizer(AutoTokenizer.from_pretrained(base)), 2_048)
        self._label_ids = list(self._renderer.label_ids(self.template).values())
        assert self.template.label is not None
        self._labels = list(self.template.label.values.values())
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        config = LoraConfig(
            r=recipe.rank,
            lora_alpha=recipe.alpha,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )
        self.model: Any = get_peft_model(model, config).to(device)
        merge_in_forward(self.model)
        self._static = self._shared_prefix()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=recipe.learning_rate, weight_decay=0.0)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)
        self.step = 0
        self.seconds = 0.0

    def prompt(self, example: Example) -> list[int]:
        """The token ids that the service would send to its engine."""
        fields = {"response": example.response, "reference": example.reference}
        budget = self.template.response_tokens
        return self._renderer.render(
            self.template,
            fields,
            mode="label",
            response_tokens=budget,
            reserve_tokens=1,
        ).token_ids

    def train(self, batch: Sequence[tuple[list[int], bool]]) -> tuple[float, float]:
        """One step on prompts with their labels; the mean loss and the accuracy before it."""
        began = time.monotonic()
        self.model.train()
        logits = self._logits([ids for ids, _ in batch])
        target = torch.tensor([self._labels.index(float(label)) for _, label in batch]).to(
            logits.device
        )
        loss = torch.nn.functional.cross_entropy(logits, target)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.seconds += time.monotonic() - began
        return loss.item(), (logits.argmax(-1) == target).float().mean().item()

    def probabilities(self, prompts: Sequence[list[int]], batch_size: int = 32) -> Iterator[float]:
        """Each prompt's probability of right."""
        self.model.eval()
        right = self._labels.index(1.0)
        for start in range(0, len(prompts), batch_size):
            with torch.no_grad():
                logits = self._logits(prompts[start : start + batch_size])
            yield from torch.softmax(logits, -1)[:, right].tolist()

    def save(self, folder: Path) -> None:
        """What a later run needs to go on from here."""
        trained = {n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad}
        state = {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "seconds": self.seconds,
            "adapter": trained,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
        }
        scratch = folder / f"{CHECKPOINT}.part"
        torch.save(state, scratch)
        scratch.replace(folder / CHECKPOINT)

    def save_adapter(self, folder: Path) -> None:
        """The adapter as PEFT reads it, in half precision."""
        half = {
            name: weight.detach().to(torch.float16).cpu().contiguous()
            for name, weight in get_peft_model_state_dict(self.model).items()
        }
        config = self.model.peft_config["default"]
        config.base_model_name_or_path = _BASE  # not this machine's folder of it
        config.save_pretrained(folder)
        weights = folder / "adapter_model.safetensors"
        save_file(half, weights, metadata={"format": "pt"})
        weights.chmod(0o644)

    def resume(self, folder: Path) -> None:
        """Go on from the folder's checkpoint, where there is one.

        Raises:
            ValueError: it was made by another recipe.
        """
        path = folder / CHECKPOINT
        if not path.exists():
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["recipe"] != asdict(self.recipe):
            raise ValueError(f"{path} was made by another recipe: {state['recipe']}; remove it")
        self.model.load_state_dict(state["adapter"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.step = state["step"]
        self.seconds = state["seconds"]

    def _rate(self, step: int) -> float:
        done = step / max(1, self.recipe.steps)
        if done < self.recipe.warmup:
            return (step + 1) / (self.recipe.warmup * self.recipe.steps)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def _shared_prefix(self) -> list[int]:
        one = self.prompt(Example("7", "3", False, ""))
        other = self.prompt(Example("x y", "18", False, ""))
        shared = next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        return one[:shared]

    def _logits(self, prompts: Sequence[list[int]]) -> torch.Tensor:
        """Logits of the labels after each prompt, shape (prompts, labels).

        What neighbours share is computed once: the static text, and a response that is held
        against several references.
        """
        starts = [
            0,
            *(at for at in range(1, len(prompts)) if self._parted(prompts, at)),
        ]
        ends = [*starts[1:], len(prompts)]
        static = len(self._static)
        shared = [
            min(_common(prompts[start:end]), *(len(p) - 1 for p in prompts[start:end]))
            for start, end in zip(starts, ends, strict=True)
        ]
        model = self.model.get_base_model()  # with the adapter in its layers
        past = _Past(model.model, self.device)
        past.extend([self._static])
        past.spread([0] * len(starts))
        past.extend([prompts[at][static:to] for at, to in zip(starts, shared, strict=True)])
        group = [g for g, (a, b) in enumerate(zip(starts, ends, strict=True)) for _ in range(a, b)]
        past.spread(group)
        hidden = past.extend([p[shared[g] :] for p, g in zip(prompts, group, strict=True)])
        logits: torch.Tensor = (hidden @ model.lm_head.weight[self._label_ids].T).float()
        return logits

    def _parted(self, prompts: Sequence[list[int]], at: int) -> bool:
        """Whether the prompt shares less with the one before it than the response."""
        response = max(len(self._static) + 3, len(prompts[at]) - _REFERENCE)
        return _common(prompts[at - 1 : at + 1]) < response


class _Past:
    """A batch of prompts fed piece by piece, each piece padded in front."""

    def __init__(self, backbone: Any, device: str) -> None:
        self._backbone = backbone
        self._device = device
        self._cache: Any = None
        self._seen = torch.ones(1, 0, dtype=torch.long, device=device)

    def spread(self, rows: Sequence[int]) -> None:
        """Make row ``rows[i]`` row i."""
        index = torch.tensor(rows, device=self._device)
        for layer in self._cache.layers:
            layer.keys = layer.keys.index_select(0, index)
            layer.values = layer.values.index_select(0, index)
        self._seen = self._seen[index]

    def extend(self, pieces: Sequence[list[int]]) -> torch.Tensor:
        """Feed a piece a row; the hidden states after it, shape (rows, width)."""
        longest = max(map(len, pieces))
        ids = torch.tensor([[0] * (longest - len(piece)) + piece for piece in pieces])
        lengths = torch.tensor([len(piece) for piece in pieces], device=self._device)[:, None]
        places = torch.arange(longest, device=self._device)[None, :] - (longest - lengths)
        known = self._seen.sum(1, keepdim=True)
        self._seen = torch.cat([self._seen, (places >= 0).long()], dim=1)
        output = self._backbone(
            input_ids=ids.to(self._device),
            attention_mask=self._seen,
            position_ids=known + places.clamp(min=0),
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cache = output.past_key_values
        hidden: torch.Tensor = output.last_hidden_state[:, -1]
        return hidden


def _common(prompts: Sequence[list[int]]) -> int:
    """How many tokens all of the prompts begin with."""
    at = 0
    while all(at < len(p) and p[at] == prompts[0][at] for p in prompts):
        at += 1
    return at


def batches(
    trainer: Trainer, problems: Sequence[Problem]
) -> Iterator[list[tuple[list[int], bool]]]:
    """The batches from the trainer's step on, of prompts of like length.

    A batch number's content depends on the recipe alone, so that a run can be resumed.
    """
    recipe = trainer.recipe
    for window in range(trainer.step // _WINDOW, math.ceil(recipe.steps / _WINDOW)):
        rng = Random(f"{recipe.seed}/{window}")
        steps = range(window * _WINDOW, min(recipe.steps, (window + 1) * _WINDOW))
        groups: list[list[tuple[list[int], bool]]] = []
        while sum(map(len, groups)) < len(steps) * recipe.batch_size:
            made = recipe.lesson(steps[0], rng.choice(problems), rng)
            groups.append([(trainer.prompt(example), example.correct) for example in made])
        groups.sort(key=lambda group: len(group[0][0]))
        pairs = [pair for group in groups for pair in group]
        size = recipe.batch_size
        cut = [pairs[at * size : (at + 1) * size] for at in range(len(steps))]
        rng.shuffle(cut)
        yield from cut[max(0, trainer.step - steps[0]) :]
