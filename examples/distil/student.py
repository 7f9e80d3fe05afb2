"""The student: a LoRA adapter on the bundled model, and the two losses that it can learn from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from reward_serve.logprobs import LogprobsResult

RANK = 16


class Student:
    """A model with a new adapter; without it, the model is the teacher's, exactly.

    Args:
        folder: the model's checkpoint.
        learning_rate: AdamW's.
        seed: seed of the adapter.
    """

    def __init__(self, folder: Path, learning_rate: float, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        lora = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
        self._model = get_peft_model(model, lora).eval()
        self._base = self._model.get_base_model()
        trained = [weight for weight in self._model.parameters() if weight.requires_grad]
        self._optimizer = torch.optim.AdamW(trained, learning_rate, weight_decay=0.0)
        breaks = [i for token, i in self.tokenizer.get_vocab().items() if "Ċ" in token]
        self._stops = [self.tokenizer.eos_token_id, *breaks]

    @torch.no_grad()
    def sample(self, prompts: Sequence[list[int]], max_tokens: int) -> list[list[int]]:
        """A response to each prompt at temperature 1: a line, with the token that ends it."""
        padded = self.tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        output = self._model.generate(
            **padded, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
            max_new_tokens=max_tokens, eos_token_id=self._stops,
        )  # fmt: skip
        responses = output[:, padded["input_ids"].shape[1] :].tolist()
        ends = ((i + 1 for i, t in enumerate(r) if t in self._stops) for r in responses)
        return [r[: next(end, max_tokens)] for r, end in zip(responses, ends, strict=True)]

    def logprobs(
        self, prompts: Sequence[list[int]], responses: Sequence[list[int]], cache: Any = None
    ) -> Tensor:
        """Log-probabilities at each token, of shape (responses, longest response, vocabulary).

        The rows after a response's end have no meaning. ``cache`` holds what stands before every
        prompt.
        """
        longest = max(map(len, responses))
        rows = [torch.tensor(p + r[:-1]) for p, r in zip(prompts, responses, strict=True)]
        # Padding on the right is seen by no token before it.
        tokens = pad_sequence(rows, batch_first=True)
        hidden = self._base.model(tokens, past_key_values=cache).last_hidden_state
        starts = (len(prompt) - 1 for prompt in prompts)
        states = [row[at : at + longest] for row, at in zip(hidden, starts, strict=True)]
        logits: Tensor = self._base.lm_head(pad_sequence(states, batch_first=True))
        return logits.log_softmax(-1)

    @torch.no_grad()
    def reverse_kl(
        self, examples: list[int], prompts: Sequence[list[int]], responses: Sequence[list[int]]
    ) -> list[float]:
        """The sum over each response's tokens of the KL from the student to the teacher, exactly.

        ``examples`` stand before the teacher's prompts.
        """
        student = self.logprobs(prompts, responses)
        with self._model.disable_adapter():
            cache = DynamicCache()
            self._base.model(torch.tensor([examples]), past_key_values=cache)
            cache.batch_repeat_interleave(len(prompts))
            teacher = self.logprobs(prompts, responses, cache)
        distances = (student.exp() * (student - teacher)).sum(-1)
        return [float(d[: len(r)].sum()) for d, r in zip(distances, responses, strict=True)]

    def learn(
        self,
        prompts: Sequence[list[int]],
        responses: Sequence[list[int]],
        results: Sequence[LogprobsResult],
    ) -> float:
        """One optimiser step on the responses that the teacher scored, of which there must be one.

        Returns:
            The mean reward of a token.
        """
        scored = [place for place, result in enumerate(results) if result.logprobs is not None]
        taught = [responses[place] for place in scored]
        padded = self.logprobs([prompts[place] for place in scored], taught)
        student = torch.cat([row[: len(r)] for row, r in zip(padded, taught, strict=True)])

        def column(name: str) -> Tensor:
            return torch.cat([torch.from_numpy(getattr(results[place], name)) for place in scored])

        tokens = torch.tensor([token for response in taught for token in response])
        sampled = student.gather(-1, tokens[:, None])[:, 0]
        rewards = (column("logprobs") - sampled).detach()
        if results[scored[0]].top_k:
            likeliest = student.gather(-1, column("top_ids").long())
            loss = top_k_loss(likeliest, column("top_logprobs"))
        else:
            loss = sampled_loss(sampled, rewards)
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        self._optimizer.step()
        return float(rewards.mean())


def sampled_loss(logprobs: Tensor, rewards: Tensor) -> Tensor:
    """The policy gradient of sampled tokens, each with a reward of its own and no discount.

    Its gradient is an estimate of that of the reverse KL at the places of the response (Thinking
    Machines, On-Policy Distillation, 2025).
    """
    return -(rewards * logprobs).mean()


def top_k_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """The reverse KL over the teacher's likeliest tokens and one outcome for all others.

    Both are log-probabilities, (tokens, top_k).
    """
    rest, others = (
        (1 - part.exp().sum(-1, keepdim=True)).clamp_min(1e-6).log() for part in (student, teacher)
    )
    student, teacher = torch.cat([student, rest], -1), torch.cat([teacher, others], -1)
    return (student.exp() * (student - teacher)).sum(-1).mean()
