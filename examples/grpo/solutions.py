"""Generated solutions in natural wording, for warming the policy up before it learns from rewards.

One in twenty ends in ``####``; otherwise the policy would never try the strict rule's format.
"""

from __future__ import annotations

from random import Random

from examples.grpo.problems import Problem, Step

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
