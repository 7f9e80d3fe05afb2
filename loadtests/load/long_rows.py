"""Long labelled reasoning rollouts, generated from a seed.

Each repeats additions and ends in a marked answer, which a rule decides. Lengths are log-normal up
to a maximum.
"""

from __future__ import annotations

from random import Random

from reward_serve_lab.evaluation.bulk import Row

MEDIAN_CHARS = 32 * 1024
LONGEST_CHARS = 128 * 1024
SIGMA = 0.8

_PROMPTS, _RESPONSES = 32, 8


def long_rows(rng: Random, prompts: int = _PROMPTS, responses: int = _RESPONSES) -> list[Row]:
    """Rows of ``prompts`` prompts with ``responses`` responses each, about half of them right."""
    rows: list[Row] = []
    for _ in range(prompts):
        red, blue = rng.randrange(100, 1000), rng.randrange(100, 1000)
        asked = {
            "question": f"A box holds {red} red and {blue} blue marbles. How many does it hold?",
            "reference": f"{red} + {blue} = {red + blue}\n#### {red + blue}",
        }
        for _ in range(responses):
            correct = rng.random() < 0.5
            answer = red + blue + (0 if correct else rng.randrange(1, 100))
            body = {**asked, "response": rollout(rng, answer, length(rng))}
            rows.append(Row(len(rows) + 1, body, correct))
    return rows


def length(rng: Random) -> int:
    """Draw a rollout's length in characters."""
    return min(LONGEST_CHARS, round(MEDIAN_CHARS * rng.lognormvariate(0.0, SIGMA)))


def rollout(rng: Random, answer: int, characters: int) -> str:
    """Reasoning and a marked answer, at most one step shorter than ``characters``."""
    ending = f"\n#### {answer}"
    left = characters - len(ending)
    steps: list[str] = []
    while True:
        one, other = rng.randrange(100, 1000), rng.randrange(100, 1000)
        step = f"I count again: {one} in one heap and {other} beside it, {one + other} together.\n"
        left -= len(step)
        if left < 0:
            return "".join(steps) + ending
        steps.append(step)
