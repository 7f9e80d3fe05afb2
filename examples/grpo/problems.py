"""Word problems of one and two steps, generated from a seed, with known answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Literal

import yaml

Split = Literal["train", "held_out"]

TRAIN_PROBLEMS = 2000
HELD_OUT_PROBLEMS = 200
_FACTORS = (2, 9)


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a solution: ``left sign right = result``; the sign is one of ``+-*/``."""

    left: int
    sign: str
    right: int
    result: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A question, the steps of its solution, what is counted, and its template's index."""

    question: str
    steps: tuple[Step, ...]
    unit: str
    template: int

    @property
    def answer(self) -> int:
        """The right answer."""
        return self.steps[-1].result


def make(split: Split, count: int, seed: int) -> list[Problem]:
    """``count`` different problems of a split, determined by the seed."""
    return list(islice(problems(split, Random(f"{split}/{seed}")), count))


def problems(split: Split, rng: Random) -> Iterator[Problem]:
    """Endless different problems, cycling through the templates."""
    seen = set()
    while True:
        for index, template in enumerate(_texts()[split]):
            problem = _problem(template, index, rng)
            if problem.question not in seen:
                seen.add(problem.question)
                yield problem


def _problem(template: dict[str, str], index: int, rng: Random) -> Problem:
    signs = re.findall(r"[-+*/]", template["steps"])
    operands, steps = _numbers(signs, rng)
    words = {"name": rng.choice(_texts()["names"]), "thing": rng.choice(_texts()["things"])}
    numbers = dict(zip("abc", operands, strict=False))
    question = template["text"].format(**words, **numbers)
    counted = re.search(r"[Hh]ow many (\w+)|[Hh]ow (old)", question)
    assert counted is not None, question
    return Problem(question, steps, counted[1] or "years", index)


def _numbers(signs: list[str], rng: Random) -> tuple[list[int], tuple[Step, ...]]:
    """Operands with whole results from 1 to 101, and the steps."""
    while True:
        operands, steps = [_first(signs[0], rng)], []
        value = operands[0]
        for sign in signs:
            right = _right(sign, value, rng)
            if right is None:
                break
            result = _apply(value, sign, right)
            steps.append(Step(value, sign, right, result))
            operands.append(right)
            value = result
        else:
            return operands, tuple(steps)


def _first(sign: str, rng: Random) -> int:
    if sign == "*":
        return rng.randint(*_FACTORS)
    if sign == "/":
        return rng.randint(*_FACTORS) * rng.randint(*_FACTORS)
    return rng.randint(5, 20)


def _right(sign: str, left: int, rng: Random) -> int | None:
    """A random right operand with a valid result; None if no operand has one."""
    if sign == "+":
        return rng.randint(*_FACTORS)
    if sign == "-":
        return rng.randint(2, min(left - 1, 9)) if left > 2 else None
    if sign == "*":
        return rng.randint(*_FACTORS)
    divisors = [n for n in range(_FACTORS[0], _FACTORS[1] + 1) if left % n == 0 and left > n]
    return rng.choice(divisors) if divisors else None


def _apply(left: int, sign: str, right: int) -> int:
    return {"+": left + right, "-": left - right, "*": left * right, "/": left // right}[sign]


@cache
def _texts() -> dict[str, Any]:
    path = Path(__file__).with_name("templates.yaml")
    texts: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return texts


ASK = "End with #### <{form}>."


def prompt_tokens(tokenizer: Any, question: str, form: str = "number") -> list[int]:
    """The conversation up to the policy's answer, a ``form``, with thinking disabled."""
    ask = ASK.format(form=form)
    conversation = [{"role": "system", "content": ask}, {"role": "user", "content": question}]
    tokens: list[int] = tokenizer.apply_chat_template(
        conversation,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        enable_thinking=False,  # used by some templates, such as Qwen3's
    )
    return tokens
