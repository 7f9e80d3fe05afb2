"""Warms the policy up on written solutions, until it earns rewards that it can learn from.

Untrained, it solves one problem in a hundred, and most groups would earn nothing at all.
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
    """How the policy is warmed up.

    Attributes:
        solutions: written by code, each seen once.
        batch: solutions of an optimiser step.
        learning_rate: Adam's.
        seed: of problems, solutions and adapter.
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
    """The path of a warmed-up state, made where the engine's home has none by this recipe.

    Args:
        home: the engine's home, in which its checkpoints lie.
        recipe: how.
        begin: makes a policy with a new adapter.
        tokenizer: the policy's.
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
    """Prompts and responses, in tokens."""
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
    """Names the recipe, with the code and the texts that the solutions come from."""
    sources = ("problems.py", "prompts.py", "solutions.py", "templates.yaml")
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in sources]
    return hashlib.sha256("".join([*texts, json.dumps(asdict(recipe))]).encode()).hexdigest()[:12]
