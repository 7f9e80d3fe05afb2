"""Trains a LoRA on the label logits of the shipped ``final_answer`` template.

Training makes one pass over generated examples, rendered as in the service. The prompt's static
text is computed once per batch and shared, as in the engine's prefix cache.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.templates import load_template
from reward_serve_judge.training.packed import Piece, hidden_states
from reward_serve_judge.training.prompts import STOP, Prompt, Prompts, common
from reward_serve_judge.training.recipe import Recipe
from reward_serve_judge.training.responses import Material, make

CHECKPOINT = "checkpoint.pt"
_BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
_REFERENCE = 48  # upper bound of the tokens of a reference and the text after it
_WINDOW = 16  # batches generated together, to sort their prompts by length


class Trainer:
    """The base model, its adapter, and the steps that train it.

    Args:
        recipe: the settings.
        base: folder of the base model.
        device: ``cpu`` or ``cuda``.
        workers: threads to split a batch over; default on a CPU: torch's number of threads. On two
            cores, this is a third faster than running each product on both.
    """

    def __init__(self, recipe: Recipe, base: Path, device: str, workers: int | None = None) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe = recipe
        self.device = device
        self.template = load_template(recipe.template)
        self.prompts = Prompts(self.template, ChatTokenizer(AutoTokenizer.from_pretrained(base)))
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        config = LoraConfig(
            r=recipe.rank,
            lora_alpha=recipe.alpha,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )
        self.model: Any = get_peft_model(model, config).to(device)
        precision = _precision(device)
        for layer in self.model.modules():
            if hasattr(layer, "base_layer"):
                layer.base_layer.to(precision)
        digits = model.lm_head.weight[list(self.prompts.digits.values())].detach()
        self.model.register_parameter("stop", torch.nn.Parameter(digits.mean(0)))
        self.optimizer = create_loraplus_optimizer(
            self.model,
            torch.optim.AdamW,
            lr=recipe.learning_rate,
            loraplus_lr_ratio=recipe.ratio,
        )
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate)
        cores = torch.get_num_threads() if device == "cpu" else 1
        self._workers = workers or cores
        self._pool = ThreadPoolExecutor(
            self._workers,
            initializer=torch.set_num_threads,
            initargs=(cores // self._workers or 1,),
        )
        self.step = 0
        self.seconds = 0.0

    def train(self, batch: Sequence[Prompt]) -> tuple[float, float]:
        """Take one step; return the labels' mean loss and accuracy before it.

        The loss is that of the label, among the labels, plus that of the value that the response
        commits to, among the tokens of the batch's values, digits and a stop: a value teaches
        more than one bit. Over the whole vocabulary, either loss makes the model forget how to
        write. So the stop has its own row, which is discarded after training.
        """
        began = time.monotonic()
        done = self._gradients(batch)
        torch.nn.utils.clip_grad_norm_([p for p in self.model.parameters() if p.requires_grad], 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.seconds += time.monotonic() - began
        return sum(loss for loss, _ in done), sum(right for _, right in done) / len(batch)

    def seconds_of(self, batch: Sequence[Prompt]) -> float:
        """The duration of a step on the batch, without training."""
        began = time.monotonic()
        self._gradients(batch)
        self.optimizer.zero_grad(set_to_none=True)
        return time.monotonic() - began

    def _gradients(self, batch: Sequence[Prompt]) -> list[tuple[float, int]]:
        self.model.train()
        answers = sum(len(prompt.answer) for prompt in batch)
        tokens = {*self.prompts.digits.values(), *(t for p in batch for t in p.answer)} - {STOP}
        read = [*sorted(tokens), STOP]
        return list(
            self._pool.map(
                lambda part: self._backward(part, len(batch), answers, read), self._parts(batch)
            )
        )

    def _parts(self, batch: Sequence[Prompt]) -> list[Sequence[Prompt]]:
        """Split the batch over workers; prompts with the same response stay together."""
        ids = [prompt.ids for prompt in batch]
        cuts = [0]
        for worker in range(1, self._workers):
            at = max(cuts[-1] + 1, round(worker * len(batch) / self._workers))
            while at < len(batch) and not self._parted(ids, at):
                at += 1
            cuts.append(at)
        return [batch[a:b] for a, b in zip(cuts, [*cuts[1:], len(batch)], strict=True) if a < b]

    def _backward(
        self, part: Sequence[Prompt], prompts: int, answers: int, tokens: list[int]
    ) -> tuple[float, int]:
        """Add the part's gradient; return its share of the loss and its number of right labels."""
        hidden = self._hidden([prompt.ids for prompt in part], [p.reference for p in part])
        head = torch.cat(
            [self.model.get_base_model().lm_head.weight[tokens[:-1]], self.model.stop[None]]
        )
        logits = self._label_logits(hidden)
        target = torch.tensor([prompt.label for prompt in part]).to(logits.device)
        weight = logits.new_tensor([self.recipe.met if s else 1.0 for s in self.prompts.scores])
        loss = torch.nn.functional.cross_entropy(logits, target, weight, reduction="sum") / prompts
        total = loss
        if any(prompt.answer for prompt in part):
            read = torch.cat([_reading(*row) for row in zip(hidden, part, strict=True)])
            answer = torch.tensor([tokens.index(t) for prompt in part for t in prompt.answer])
            total = loss + self.recipe.extraction / answers * torch.nn.functional.cross_entropy(
                read @ head.T, answer.to(logits.device), reduction="sum"
            )
        total.backward()  # type: ignore[no-untyped-call]
        return loss.item(), int((logits.argmax(-1) == target).sum())

    def probabilities(self, prompts: Sequence[Prompt], batch_size: int = 32) -> Iterator[float]:
        """Each prompt's probability of the label with score 1."""
        self.model.eval()
        right = self.prompts.scores.index(1.0)
        for start in range(0, len(prompts), batch_size):
            some = prompts[start : start + batch_size]
            with torch.no_grad():
                hidden = self._hidden([p.ids for p in some], [len(p.ids) for p in some])
                logits = self._label_logits(hidden)
            yield from torch.softmax(logits, -1)[:, right].tolist()

    def save(self, folder: Path) -> None:
        """Save a checkpoint to resume from."""
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
        """Save the adapter in PEFT's format, in half precision."""
        half = {
            name: weight.detach().to(torch.float16).cpu().contiguous()
            for name, weight in get_peft_model_state_dict(self.model).items()
        }
        config = self.model.peft_config["default"]
        config.base_model_name_or_path = _BASE  # not its folder on this machine
        config.target_modules = sorted(config.target_modules)  # a set, whose order varies
        config.save_pretrained(folder)
        weights = folder / "adapter_model.safetensors"
        save_file(half, weights, metadata={"format": "pt"})
        weights.chmod(0o644)

    def load_adapter(self, folder: Path) -> None:
        """Start from an adapter's weights instead of random ones."""
        set_peft_model_state_dict(self.model, load_file(folder / "adapter_model.safetensors"))

    def average(self, folder: Path) -> None:
        """Mix the adapter with the one that it started from, so that it keeps what that one knew.

        WiSE-FT (Wortsman et al. 2022, arXiv:2109.01903).
        """
        old, new = load_file(folder / "adapter_model.safetensors"), self.recipe.new
        trained = get_peft_model_state_dict(self.model)
        mixed = {n: (1 - new) * old[n] + new * weight.cpu() for n, weight in trained.items()}
        set_peft_model_state_dict(self.model, mixed)

    def resume(self, folder: Path, any_length: bool = False) -> bool:
        """Resume from the folder's checkpoint; returns whether it has one.

        Args:
            folder: output folder of an earlier run.
            any_length: adopt the checkpoint's number of examples.

        Raises:
            ValueError: the checkpoint has another recipe.
        """
        path = folder / CHECKPOINT
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.device, weights_only=True)
        if any_length:
            self.recipe = replace(self.recipe, examples=state["recipe"]["examples"])
        if state["recipe"] != asdict(self.recipe):
            raise ValueError(f"{path} was made by another recipe: {state['recipe']}; remove it")
        self.model.load_state_dict(state["adapter"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.step = state["step"]
        self.seconds = state["seconds"]
        return True

    def _rate(self, step: int) -> float:
        done = step / max(1, self.recipe.steps)
        if done < self.recipe.warmup:
            return (step + 1) / (self.recipe.warmup * self.recipe.steps)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def _label_logits(self, hidden: Sequence[torch.Tensor]) -> torch.Tensor:
        head = self.model.get_base_model().lm_head.weight[self.prompts.label_ids]
        logits: torch.Tensor = torch.stack([states[-1] for states in hidden]) @ head.T
        return logits

    def _hidden(self, prompts: Sequence[list[int]], wanted: Sequence[int]) -> list[torch.Tensor]:
        """Hidden states of each prompt's end, shape (tokens, width).

        Shared text is computed once: the static text, and a response that neighbouring prompts
        compare with different references.

        Args:
            prompts: token ids.
            wanted: index in each prompt of the first token to predict; the states begin at the
                token before it, or earlier.
        """
        starts = [0, *(at for at in range(1, len(prompts)) if self._parted(prompts, at))]
        ends = [*starts[1:], len(prompts)]
        static = len(self.prompts.static)
        shared = [
            min(common(prompts[start:end]), *(at - 1 for at in wanted[start:end]))
            for start, end in zip(starts, ends, strict=True)
        ]
        pieces = [Piece(self.prompts.static)]
        pieces += [Piece(prompts[at][static:to], 0) for at, to in zip(starts, shared, strict=True)]
        for group, (start, end) in enumerate(zip(starts, ends, strict=True)):
            pieces += [Piece(ids[shared[group] :], 1 + group) for ids in prompts[start:end]]
        return hidden_states(self.model, pieces, self.device)[1 + len(starts) :]

    def _parted(self, prompts: Sequence[list[int]], at: int) -> bool:
        """Whether the prompt's response differs from that of the prompt before it."""
        response = max(len(self.prompts.static) + 3, len(prompts[at]) - _REFERENCE)
        return common(prompts[at - 1 : at + 1]) < response


def _precision(device: str) -> torch.dtype:
    """The precision of matrix products: bfloat16 if the device has instructions for it."""
    if device == "cuda":
        native = torch.cuda.is_bf16_supported()
    else:
        able = torch.cpu.get_capabilities()
        native = bool(able.get("avx512_bf16") or able.get("amx_bf16"))
    return torch.bfloat16 if native else torch.float32


def _reading(states: torch.Tensor, prompt: Prompt) -> torch.Tensor:
    """The states that predict the tokens of the prompt's answer."""
    first = len(states) - len(prompt.ids) + prompt.reference - 1
    return states[first : first + len(prompt.answer)]


def batches(trainer: Trainer, material: Material) -> Iterator[list[Prompt]]:
    """The batches from the trainer's step on, each of prompts of similar length.

    A batch depends only on the recipe and its number, so a run can be resumed.
    """
    recipe = trainer.recipe
    for window in range(trainer.step // _WINDOW, math.ceil(recipe.steps / _WINDOW)):
        rng = Random(f"{recipe.seed}/{window}")
        steps = range(window * _WINDOW, min(recipe.steps, (window + 1) * _WINDOW))
        groups: list[list[Prompt]] = []
        while sum(map(len, groups)) < len(steps) * recipe.batch_size:
            made = recipe.lesson(steps[0], material, rng)
            groups.append([trainer.prompts.of(example) for example in made])
        groups.sort(key=lambda group: len(group[0].ids))
        prompts = [prompt for group in groups for prompt in group]
        size = recipe.batch_size
        cut = [prompts[at * size : (at + 1) * size] for at in range(len(steps))]
        rng.shuffle(cut)
        yield from cut[max(0, trainer.step - steps[0]) :]


def evaluate(trainer: Trainer, material: Material, count: int) -> dict[str, Any]:
    """Agreement on ``count`` new examples, in total, by family and by kind of answer.

    The training generator writes the examples, so they are easier than policies' responses. For
    those, use ``reward-serve eval``; for what training never shows, ``unseen.py``.
    """
    rng = Random(f"{trainer.recipe.seed}/held-out")
    examples = [rng.choice(make(material, rng)) for _ in range(count)]
    # Sorted by length, so that batches have little padding.
    pairs = sorted(
        ((trainer.prompts.of(e), e) for e in examples), key=lambda pair: len(pair[0].ids)
    )
    agreed: dict[str, list[bool]] = defaultdict(list)
    by_kind: dict[str, list[bool]] = defaultdict(list)
    accepted: dict[bool, list[bool]] = {True: [], False: []}
    right = trainer.probabilities([prompt for prompt, _ in pairs])
    for (_, example), probability in zip(pairs, right, strict=True):
        verdict = probability > 0.5
        agreed[example.family].append(verdict is example.correct)
        by_kind[example.kind].append(verdict is example.correct)
        accepted[example.correct].append(verdict)
    return {
        "n": count,
        "agreement": _mean([a for family in agreed.values() for a in family]),
        "false_accept_rate": _mean(accepted[False]),
        "false_reject_rate": _mean([not a for a in accepted[True]]),
        "by_family": {family: _mean(agreed[family]) for family in sorted(agreed)},
        "by_kind": {kind: _mean(by_kind[kind]) for kind in sorted(by_kind)},
    }


def _mean(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


_TIMED = 4
_LEAST = 1_000


def affordable(trainer: Trainer, material: Material, minutes: float) -> int:
    """The number of examples, in thousands, that fits the minutes; at most the recipe's.

    Args:
        trainer: the trainer; a few batches measure its speed without training it.
        material: what these batches are made of.
        minutes: training time.
    """
    recipe, rng = trainer.recipe, Random(f"{trainer.recipe.seed}/pace")
    taken = []
    for _ in range(1 + _TIMED):
        prompts: list[Prompt] = []
        while len(prompts) < recipe.batch_size:
            prompts += [trainer.prompts.of(example) for example in make(material, rng)]
        taken.append(trainer.seconds_of(prompts) / len(prompts))
    pace = sum(taken[1:]) / _TIMED  # the first batch includes set-up
    fit = int(60 * minutes / pace) // _LEAST * _LEAST
    return min(recipe.examples, max(fit, _LEAST))
