"""Warms the policy up on written solutions, so that it earns rewards to learn from.

Untrained, it solves one problem in a hundred, and most groups would have no reward at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from examples.grpo.policy import Policy
from examples.grpo.problems import make
from examples.grpo.prompts import prompt_tokens
from examples.grpo.solutions import solution


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The warm-up's settings.

    Attributes:
        solutions: number of generated solutions; each is used once.
        batch: solutions per optimiser step.
        learning_rate: Adam's learning rate.
        seed: seed of problems and solutions.
    """

    solutions: int = 480
    batch: int = 8
    learning_rate: float = 1e-3
    seed: int = 1


def warmed_up(
    home: Path,
    recipe: WarmUp,
    begin: Callable[[], Policy],
    tokenizer: Any,
    report: Callable[[str], None],
) -> str:
    """The path of a warmed-up state; trained unless ``home`` has one with this recipe.

    Args:
        home: folder of the engine's checkpoints.
        recipe: the warm-up's settings.
        begin: creates a policy with a new adapter.
        tokenizer: the policy's tokenizer.
        report: called with a line for each optimiser step.
    """
    record = home / f"warm-up-{_digest(recipe)}.json"
    if record.exists():
        return str(json.loads(record.read_text(encoding="utf-8"))["state"])
    texts = _texts(recipe, tokenizer)
    with closing(begin()) as policy:
        for start in range(0, len(texts), recipe.batch):
            policy.imitate(texts[start : start + recipe.batch], recipe.learning_rate)
            report(f"warm-up: {start + recipe.batch} of {len(texts)} solutions")
        state = policy.save_state("warm-up")
    record.write_text(json.dumps({"state": state, **asdict(recipe)}) + "\n", encoding="utf-8")
    return state


def _texts(recipe: WarmUp, tokenizer: Any) -> list[tuple[list[int], list[int]]]:
    """Prompts and responses as token ids."""
    rng = Random(recipe.seed)
    problems = make("train", recipe.solutions, recipe.seed)
    pairs = []
    for index, problem in enumerate(problems):
        written = tokenizer.encode(solution(problem, index, rng), add_special_tokens=False)
        prompt = prompt_tokens(tokenizer, problem.question)
        pairs.append((prompt, [*written, tokenizer.eos_token_id]))
    rng.shuffle(pairs)
    return pairs


def _digest(recipe: WarmUp) -> str:
    """A digest of the recipe and of the sources of the solutions."""
    sources = ("problems.py", "prompts.py", "solutions.py", "templates.yaml")
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in sources]
    return hashlib.sha256("".join([*texts, json.dumps(asdict(recipe))]).encode()).hexdigest()[:12]
