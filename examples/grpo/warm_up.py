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
from examples.grpo.problems import Problem, Step, make, prompt_tokens


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The warm-up's settings; each of the generated solutions is used once."""

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

    ``begin`` creates a policy with a new adapter; ``report`` gets a line for each optimiser step.
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
    """A digest of the recipe and of the sources of problems and solutions."""
    sources = ("problems.py", "warm_up.py", "templates.yaml")
    texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in sources]
    return hashlib.sha256("".join([*texts, json.dumps(asdict(recipe))]).encode()).hexdigest()[:12]


MARKED_EVERY = 20
TERSE = 0.2
"""The share of solutions that consist of the answer alone."""
_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
_CLOSINGS = (
    "The answer is {answer}.",
    "So the answer is {answer}.",
    "So there are {answer} {unit}.",
    "That is {answer} {unit}.",
    "{answer} {unit}.",
    "Answer: {answer}",
    "The result is {answer} {unit}.",
    "It is {answer}.",
    "Therefore, {answer} {unit}.",
)


def solution(problem: Problem, index: int, rng: Random) -> str:
    """A solution in one of many forms; with ``####`` if ``index`` is a multiple of 20."""
    working = _working(problem.steps, rng)
    if index % MARKED_EVERY == 0:
        return f"{working}\n#### {problem.answer}"
    closing = rng.choice(_CLOSINGS).format(answer=problem.answer, unit=problem.unit)
    if rng.random() < TERSE:
        return closing[0].upper() + closing[1:]
    return f"{working}{rng.choice((' ', chr(10)))}{closing}"


def _working(steps: tuple[Step, ...], rng: Random) -> str:
    style = rng.choice((_equations, _equations, _equations, _lines, _ordered, _spoken))
    return style(steps)


def _equation(step: Step) -> str:
    return f"{step.left} {step.sign} {step.right} = {step.result}"


def _equations(steps: tuple[Step, ...]) -> str:
    return " ".join(f"{_equation(step)}." for step in steps)


def _lines(steps: tuple[Step, ...]) -> str:
    return "\n".join(_equation(step) for step in steps)


def _spoken(steps: tuple[Step, ...]) -> str:
    clauses = (f"{step.left} {_WORDS[step.sign]} {step.right} is {step.result}" for step in steps)
    return ", and ".join(clauses) + "."


def _ordered(steps: tuple[Step, ...]) -> str:
    if len(steps) == 1:
        return f"We compute {_equation(steps[0])}."
    return f"First, {_equation(steps[0])}. Then {_equation(steps[1])}."
